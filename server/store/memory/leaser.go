package memory

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// leaser is the store as a Leaser: its clock is the store's, its leases are in the partitions.
type leaser Store

var _ store.Leaser = (*leaser)(nil)

// member is a node and until when it lives.
type member struct {
	store.Member
	until time.Time
}

// randomNonce is a nonce from a generator that is seeded by the operating system.
func randomNonce() uint64 { return rand.Uint64() }

// Now is the store's clock.
func (l *leaser) Now(ctx context.Context) (time.Time, error) {
	return l.now(), ctx.Err()
}

// Join writes or renews the member, unless another with its id lives.
func (l *leaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joinLocked(m, l.now(), ttl)
}

// joinLocked is Join under the lock.
func (l *leaser) joinLocked(m store.Member, now time.Time, ttl time.Duration) error {
	if old, ok := l.members[m.ID]; ok && old.Nonce != m.Nonce && now.Before(old.until) {
		return store.ErrTaken
	}
	l.members[m.ID] = member{m, now.Add(ttl)}
	return nil
}

// Retire writes the member if another may own something.
func (l *leaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for id, other := range l.members {
		if id != m.ID && other.Capacity > 0 && now.Before(other.until) {
			return l.joinLocked(m, now, ttl)
		}
	}
	return store.ErrLast
}

// Leave removes the member of that nonce; 0 is any.
func (l *leaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if nonce == 0 || l.members[id].Nonce == nonce {
		delete(l.members, id)
	}
	return nil
}

// Members returns those that live, by id, and forgets the others.
func (l *leaser) Members(ctx context.Context) ([]store.Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	maps.DeleteFunc(l.members, func(_ string, m member) bool { return !now.Before(m.until) })
	var out []store.Member
	for _, m := range l.members {
		out = append(out, m.Member)
	}
	slices.SortFunc(out, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Claim takes each partition that is free, expired or the node's own.
func (l *leaser) Claim(ctx context.Context, node string, partitions []int, ttl time.Duration) ([]store.Term, error) {
	owned, err := l.all(ctx, partitions)
	if err != nil {
		return nil, err
	}
	terms := make([]store.Term, len(owned))
	for i, p := range owned {
		terms[i] = p.claim(node, l.nonce(), l.now(), ttl)
	}
	return terms, nil
}

// Renew extends the leases and returns those that are lost.
func (l *leaser) Renew(ctx context.Context, node string, held []store.Holding, ttl time.Duration) ([]store.Holding, error) {
	owned, err := l.all(ctx, numbers(held))
	if err != nil {
		return nil, err
	}
	var lost []store.Holding
	for i, p := range owned {
		if !p.renew(node, held[i].Term, l.now().Add(ttl)) {
			lost = append(lost, held[i])
		}
	}
	return lost, nil
}

// Release frees the partitions that are still held.
func (l *leaser) Release(ctx context.Context, node string, held []store.Holding) error {
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
func (l *leaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var out []store.Owner
	for _, p := range l.partitions[:l.meta.ProvingGround()] {
		if o, ok := p.ownership(); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// all finds the partitions, so that a wrong number is refused before anything is changed.
func (l *leaser) all(ctx context.Context, partitions []int) ([]*partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]*partition, len(partitions))
	for i, number := range partitions {
		p, err := (*Store)(l).partition(number)
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
