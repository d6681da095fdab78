package pebble

import (
	"context"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/members"
)

// leaser is the store's Leaser. Members are kept in memory: when the process ends all of them are void.
type leaser struct {
	*members.Registry
	s *Store
}

var _ store.Leaser = leaser{}

// Now returns the time of the store's clock.
func (l leaser) Now(ctx context.Context) (time.Time, error) { return l.s.opt.Now(), ctx.Err() }

// Claim takes partitions; all of them in one commit.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) (terms []store.Term, err error) {
	for _, p := range partitions {
		if _, err := l.s.partition(p); err != nil {
			return nil, err
		}
	}
	req := &request{claim: func(out *pebbledb.Batch) error {
		terms, err = l.s.owners.claim(out, node, partitions, l.s.opt.Now(), ttl)
		return err
	}}
	if err := l.s.await(ctx, req); err != nil {
		return nil, err
	}
	return terms, nil
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (lost []store.Holding, err error) {
	if err := l.check(ctx, held); err != nil {
		return nil, err
	}
	req := &request{claim: func(out *pebbledb.Batch) error {
		lost, err = l.s.owners.renew(out, node, held, l.s.opt.Now().Add(ttl))
		return err
	}}
	if err := l.s.await(ctx, req); err != nil {
		return nil, err
	}
	return lost, nil
}

// Release frees what is still held.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.check(ctx, held); err != nil {
		return err
	}
	l.s.owners.release(node, held)
	return nil
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	return l.s.owners.list(), ctx.Err()
}

// check refuses a wrong partition before anything is changed.
func (l leaser) check(ctx context.Context, held []store.Holding) error {
	for _, h := range held {
		if _, err := l.s.partition(h.Partition); err != nil {
			return err
		}
	}
	return ctx.Err()
}
