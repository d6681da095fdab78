package cluster

import (
	"context"
	"sync/atomic"
	"time"
)

// views holds the newest [view]. Whoever talks to the store about members takes the turn first: one at a
// time, so that newer views replace older ones.
type views struct {
	newest atomic.Pointer[view]
	turn   chan struct{} // capacity 1; full while somebody has the turn
	poked  chan struct{} // capacity 1; full when a newer view is wanted
	asked  time.Duration // when the newest view was requested, by the monotonic clock; guarded by the turn
}

func newViews(parts int) *views {
	v := &views{turn: make(chan struct{}, 1), poked: make(chan struct{}, 1)}
	v.newest.Store(newView(nil, nil, parts, time.Time{}))
	return v
}

// take waits for the turn.
func (v *views) take(ctx context.Context) error {
	select {
	case v.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives the turn to the next.
func (v *views) release() { <-v.turn }

// poke requests a newer view soon.
func (v *views) poke() {
	select {
	case v.poked <- struct{}{}:
	default:
	}
}

// load returns the newest view.
func (v *views) load() *view { return v.newest.Load() }

// replace makes next the newest view, and wakes those that wait for it. The caller holds the turn.
func (v *views) replace(next *view, asked time.Duration) (before *view) {
	v.asked = asked
	before = v.newest.Swap(next)
	close(before.next)
	return before
}
