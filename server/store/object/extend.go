package object

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// extend brings a store of an older format up to date, which is to write the number of this one. Nodes of the
// older format must not live. Those that come later cannot read the root.
func (s *Store) extend(ctx context.Context) error {
	was := s.meta.Format
	if was == store.Format() {
		return nil
	}
	if err := store.CheckAsIs(was, s.opt.AsIs); err != nil {
		return err
	}
	_, err := s.roots.change(ctx, func(_ context.Context, r *root) (bool, error) {
		if r.Format == store.Format() {
			return false, nil // another process has done the same
		}
		now := s.clock.Time()
		var live []string
		for id, m := range r.Members {
			if m.lasts(now) {
				live = append(live, id)
			}
		}
		if err := store.CheckUnused(was, live); err != nil {
			return false, err
		}
		r.Format = store.Format()
		return true, nil
	}, nil)
	if err != nil {
		return err
	}
	s.meta.Format = store.Format()
	s.opt.Log.Warn("the store is of this format now", "was", was, "format", store.Format())
	return nil
}
