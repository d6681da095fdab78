// Package members keeps the members of a store that only one process has open.
package members

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Registry implements [store.Registry]. It is safe for concurrent use.
type Registry struct {
	now func() time.Time

	mu   sync.Mutex
	byID map[string]member
}

// member is a node and until when it lives.
type member struct {
	store.Member
	until time.Time
}

var _ store.Registry = (*Registry)(nil)

// New returns a registry without members, by the store's clock.
func New(now func() time.Time) *Registry { return &Registry{now: now, byID: map[string]member{}} }

// Join keeps the member for ttl, unless another with its id lives.
func (r *Registry) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(m, ttl)
}

// put is Join with the lock held.
func (r *Registry) put(m store.Member, ttl time.Duration) error {
	now := r.now()
	if old, ok := r.byID[m.ID]; ok && old.Nonce != m.Nonce && now.Before(old.until) {
		return store.ErrTaken
	}
	r.byID[m.ID] = member{m, now.Add(ttl)}
	return nil
}

// Retire keeps the member for ttl if another may own something.
func (r *Registry) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, other := range r.byID {
		if id != m.ID && other.Capacity > 0 && r.now().Before(other.until) {
			return r.put(m, ttl)
		}
	}
	return store.ErrLast
}

// Leave removes the member with that nonce; 0 matches any.
func (r *Registry) Leave(ctx context.Context, id string, nonce uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if nonce == 0 || r.byID[id].Nonce == nonce {
		delete(r.byID, id)
	}
	return nil
}

// Members returns the living members, by id, and forgets the others.
func (r *Registry) Members(ctx context.Context) ([]store.Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	maps.DeleteFunc(r.byID, func(_ string, m member) bool { return !now.Before(m.until) })
	var out []store.Member
	for _, m := range r.byID {
		out = append(out, m.Member)
	}
	slices.SortFunc(out, func(a, b store.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Past returns who lives now, and until when, for Revert.
func (r *Registry) Past() Past {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Past{maps.Clone(r.byID)}
}

// Past is who lived at one moment.
type Past struct{ byID map[string]member }

// Revert goes back to what there was then.
func (r *Registry) Revert(p Past) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID = maps.Clone(p.byID)
}
