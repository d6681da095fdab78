package pebble

import (
	"context"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon/server/store"
)

// leaser is the store's Leaser.
type leaser Store

var _ store.Leaser = (*leaser)(nil)

// Now returns the time of the store's clock.
func (l *leaser) Now(ctx context.Context) (time.Time, error) { return l.opt.Now(), ctx.Err() }

// Join keeps the member for ttl, unless another with its id lives.
func (l *leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.owners.join(m, l.opt.Now(), ttl)
}

// Retire keeps the member for ttl if another may own something.
func (l *leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.owners.retire(m, l.opt.Now(), ttl)
}

// Leave removes the member with that nonce; 0 matches any.
func (l *leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.owners.leave(id, nonce)
	return nil
}

// Members returns the living members, by id.
func (l *leaser) Members(ctx context.Context) ([]store.Member, error) {
	return l.owners.living(l.opt.Now()), ctx.Err()
}

// Claim takes partitions; all of them in one commit.
func (l *leaser) Claim(ctx context.Context, node string, partitions []int, ttl time.Duration) (terms []store.Term, err error) {
	for _, p := range partitions {
		if _, err := (*Store)(l).partition(p); err != nil {
			return nil, err
		}
	}
	req := &request{done: make(chan error, 1)}
	req.claim = func(out *pebbledb.Batch) error {
		terms, err = l.owners.claim(out, node, partitions, l.opt.Now(), ttl)
		return err
	}
	if err := (*Store)(l).submit(ctx, req); err != nil {
		return nil, err
	}
	return terms, nil
}

// Renew extends the leases and returns those that are lost.
func (l *leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (lost []store.Holding, err error) {
	if err := l.check(ctx, held); err != nil {
		return nil, err
	}
	req := &request{done: make(chan error, 1)}
	req.claim = func(out *pebbledb.Batch) error {
		lost, err = l.owners.renew(out, node, held, l.opt.Now().Add(ttl))
		return err
	}
	if err := (*Store)(l).submit(ctx, req); err != nil {
		return nil, err
	}
	return lost, nil
}

// Release frees what is still held.
func (l *leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if err := l.check(ctx, held); err != nil {
		return err
	}
	l.owners.release(node, held)
	return nil
}

// Owners returns every partition that was ever claimed, by number.
func (l *leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	return l.owners.list(), ctx.Err()
}

// check refuses a wrong partition before anything is changed.
func (l *leaser) check(ctx context.Context, held []store.Holding) error {
	for _, h := range held {
		if _, err := (*Store)(l).partition(h.Partition); err != nil {
			return err
		}
	}
	return ctx.Err()
}
