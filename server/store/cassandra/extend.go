package cassandra

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// extend brings a store of an older format up to date, which is to write the number of this one. Nodes of the
// older format must not live. Members and the format are in different partitions of Cassandra, which no
// condition spans: so who lives is looked at before, and again after the change, from which on no node of the
// older format opens the store. One that was halted all the time, and is no member then, is not noticed.
func (s *Store) extend(ctx context.Context) error {
	was := s.meta.Format
	if was == store.Format() {
		return nil
	}
	if err := s.unused(ctx); err != nil {
		return err
	}
	changed, err := s.setFormat(ctx, was, store.Format())
	if err != nil {
		return err
	}
	if changed { // otherwise another process has done the same, and nodes of this format may live
		if err := s.unused(ctx); err != nil {
			if _, back := s.setFormat(ctx, store.Format(), was); back != nil {
				return fmt.Errorf("%w; the format stays raised: %w", err, back)
			}
			return err
		}
	}
	s.meta.Format = store.Format()
	s.opt.Log.Warn("the store is of this format now", "was", was, "format", store.Format())
	return nil
}

// unused is an error if nodes live.
func (s *Store) unused(ctx context.Context) error {
	members, err := leaser{s}.Members(ctx)
	if err != nil {
		return err
	}
	var live []string
	for _, m := range members {
		live = append(live, m.ID)
	}
	return store.CheckUnused(s.meta.Format, live)
}

// setFormat changes the format, and reports whether it was this call that did.
func (s *Store) setFormat(ctx context.Context, from, to int) (changed bool, err error) {
	changed, err = s.wire.cas(ctx, statement{`UPDATE $store SET format = ? WHERE id = 0 IF format = ?`,
		[]any{to, from}})
	if err != nil {
		return false, failure(err)
	}
	found, err := s.readStore(ctx)
	if err == nil && found.format != to {
		err = store.CheckFormat(found.format)
	}
	return changed, err
}
