package engine

import (
	"sync/atomic"
	"time"
)

// Failure says why and for how long a partition that the node is to own could not be claimed, loaded or
// written.
type Failure struct {
	Partition int
	For       time.Duration // not counting the terms in between
	Ago       time.Duration // time since it got a term again; 0 if it still fails
	Err       error         // the newest
}

// steadyFor is how long a term must last without a failure until earlier failures are forgotten.
const steadyFor = 2 * time.Second

// health records what a partition fails on. Times are by Engine.elapsed. The lane's goroutine writes it;
// other goroutines read it.
type health struct {
	failing atomic.Pointer[failing] // nil: nothing
	beganAt atomic.Int64            // when a term last began here
	lostAt  atomic.Int64            // when a term was last lost; 0 = never
}

// failing is a series of failures. It is never changed.
type failing struct {
	since int64 // moved forward by the time that the partition has served meanwhile
	last  int64
	err   error
}

// fail records that the partition could not be claimed, loaded or written. Another node owning it is no
// failure. serves says whether there was a term until now.
func (h *health) fail(err error, now int64, serves bool) {
	f := &failing{since: now, last: now, err: err}
	if old := h.failing.Load(); old != nil && old.counts(now, serves) {
		f.since = old.since
		if serves {
			f.since += now - h.beganAt.Load()
		}
	}
	h.failing.Store(f)
}

// clear forgets all failures.
func (h *health) clear() { h.failing.Store(nil) }

// counts reports whether a failure still counts: no term has lasted for steadyFor since.
func (f *failing) counts(now int64, serves bool) bool {
	return !serves || now-f.last < int64(steadyFor)
}

// failure returns what the partition fails on; ok is false if nothing.
func (h *health) failure(number int, now int64, serves bool) (_ Failure, ok bool) {
	f := h.failing.Load()
	if f == nil || !f.counts(now, serves) {
		return Failure{}, false
	}
	until := now
	if serves {
		until = max(f.last, h.beganAt.Load())
	}
	return Failure{number, time.Duration(until - f.since), time.Duration(now - until), f.err}, true
}

// Failing returns, by partition, what the node is to own and fails to claim, load or write.
func (e *Engine) Failing() (out []Failure) {
	now := e.elapsed()
	for _, p := range e.parts {
		if f, fails := p.health.failure(p.number, now, p.own.holds()); fails && p.own.wanted.Load() {
			out = append(out, f)
		}
	}
	return out
}
