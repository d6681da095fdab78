package memory

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/members"
)

// leaser is the store as a Leaser: its clock is the store's, its leases are in the partitions.
type leaser struct {
	*members.Registry
	s *Store
}

var _ store.Leaser = leaser{}

// Now is the store's clock.
func (l leaser) Now(ctx context.Context) (time.Time, error) {
	return l.s.now(), ctx.Err()
}

// Claim takes each partition that is free, expired or the node's own.
func (l leaser) Claim(ctx context.Context, node string, partitions []int,
	ttl time.Duration) ([]store.Term, error) {
	owned, err := l.all(ctx, partitions)
	if err != nil {
		return nil, err
	}
	terms := make([]store.Term, len(owned))
	for i, p := range owned {
		terms[i] = p.claim(node, l.s.nonce(), l.s.now(), ttl)
	}
	return terms, nil
}

// Renew extends the leases and returns those that are lost.
func (l leaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	owned, err := l.all(ctx, numbers(held))
	if err != nil {
		return nil, err
	}
	var lost []store.Holding
	for i, p := range owned {
		if !p.renew(node, held[i].Term, l.s.now().Add(ttl)) {
			lost = append(lost, held[i])
		}
	}
	return lost, nil
}

// Release frees the partitions that are still held.
func (l leaser) Release(ctx context.Context, node string, held []store.Holding) error {
	owned, err := l.all(ctx, numbers(held))
	if err != nil {
		return err
	}
	for i, p := range owned {
		p.release(node, held[i].Term)
	}
	return nil
}

// Owners returns every partition that was ever claimed, by number.
func (l leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []store.Owner
	for _, p := range l.s.partitions[:l.s.meta.ProvingGround()] {
		if o, ok := p.ownership(); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// all finds the partitions, so that a wrong number is refused before anything is changed.
func (l leaser) all(ctx context.Context, partitions []int) ([]*partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]*partition, len(partitions))
	for i, number := range partitions {
		p, err := l.s.partition(number)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func numbers(held []store.Holding) []int {
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Partition
	}
	return out
}
