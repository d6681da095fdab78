// Package health records for how long a node has failed to serve a partition that it is to own.
package health

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

// Partition records what a partition fails on. Times are nanoseconds of the node's monotonic clock. One
// goroutine at a time writes it, others read it. The zero value has not failed.
type Partition struct {
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

// Began records that a term has begun.
func (h *Partition) Began(now int64) { h.beganAt.Store(now) }

// Lost records that a term was lost.
func (h *Partition) Lost(now int64) { h.lostAt.Store(now) }

// LostAt returns when a term was last lost; 0: never.
func (h *Partition) LostAt() int64 { return h.lostAt.Load() }

// Fail records that the partition could not be claimed, loaded or written. Another node owning it is no
// failure. serves says whether there was a term until now.
func (h *Partition) Fail(err error, now int64, serves bool) {
	f := &failing{since: now, last: now, err: err}
	if old := h.failing.Load(); old != nil && old.counts(now, serves) {
		f.since = old.since
		if serves {
			f.since += now - h.beganAt.Load()
		}
	}
	h.failing.Store(f)
}

// Clear forgets all failures.
func (h *Partition) Clear() { h.failing.Store(nil) }

// counts reports whether a failure still counts: no term has lasted for steadyFor since.
func (f *failing) counts(now int64, serves bool) bool {
	return !serves || now-f.last < int64(steadyFor)
}

// Failure returns what the partition, which is given by its number, fails on; ok is false if nothing.
func (h *Partition) Failure(number int, now int64, serves bool) (_ Failure, ok bool) {
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
