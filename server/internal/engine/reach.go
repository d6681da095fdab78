package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// awayAfter is how long requests must have failed until the store counts as away. A connection that breaks
// and is made again is not worth a word.
const awayAfter = time.Second

// reach records whether the store answers this node. The keeper of the leases finds out (keep in lease.go):
// it asks the store all the time, and a lane whose write fails, or is not answered, has it ask at once.
// Claims tell as well: who has lost all terms has no leases to renew. Both are writes: a store that answers
// reads alone is away. While the store is away nothing is
// handed out: neither an attempt nor its result could be stored.
type reach struct {
	now     func() time.Time // the node's clock
	told    ReachEvents
	catchUp *catchUp // begins when the store is back
	away    atomic.Bool
	lost    atomic.Int64 // when most terms were last lost together, by Engine.elapsed; 0 = never

	mu      sync.Mutex
	success time.Time // when the newest request began that has succeeded
	failing time.Time // when the first of the requests began that have failed since then
	since   time.Time // the same by the node's clock
	err     error     // of the newest; nil: none has failed since
}

// ReachEvents are called when the store goes away, and when it is back. Any may be nil; they must not block.
type ReachEvents struct {
	Away func(since time.Time, err error) // it has not answered since then, by the node's clock
	Back func()
}

// failed records that a request has failed that began at an instant.
func (r *reach) failed(began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !began.After(r.success) {
		return // the store has answered since
	}
	if r.err == nil {
		r.failing, r.since = began, r.now().Add(-time.Since(began))
	}
	r.err = err
	if !r.away.Load() && time.Since(r.failing) >= awayAfter {
		r.away.Store(true)
		if r.told.Away != nil {
			r.told.Away(r.since, err)
		}
	}
}

// answered records that a request has succeeded that began at an instant. It reports whether the store was
// away until now.
func (r *reach) answered(began time.Time) (back bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.success, r.err = began, nil
	if !r.away.Swap(false) {
		return false
	}
	r.catchUp.begin(r.since.UnixNano(), r.now().UnixNano())
	if r.told.Back != nil {
		r.told.Back()
	}
	return true
}

// StoreAway returns since when the store has not answered this node, by the node's clock, and why; the error
// is nil if it answers.
func (r *reach) StoreAway() (since time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away.Load() {
		return time.Time{}, nil
	}
	return r.since, r.err
}

// failingNow reports whether a request has failed since the last one that has succeeded.
func (r *reach) failingNow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// look asks the store for something if its last answer was an error, for a node that has no leases to renew.
// An answer does not mean that the store takes writes, so it tells only if the node has nothing to claim;
// otherwise a claim does.
func (e *Engine) look(ctx context.Context) (tells bool, err error) {
	if !e.reach.failingNow() {
		return false, nil
	}
	_, err = e.store.Leaser().Owners(ctx)
	claims := slices.ContainsFunc(e.parts, func(p *partitionRunner) bool { return p.own.wanted.Load() })
	return err != nil || !claims, err
}

// heard records what came of a request to the store that began at an instant.
func (e *Engine) heard(began time.Time, err error) {
	if err != nil {
		e.reach.failed(began, err)
		return
	}
	if e.reach.answered(began) {
		for _, p := range e.parts {
			p.box.ring() // it has handed out nothing meanwhile
		}
	}
}
