package engine

import "time"

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

// failing records what a partition fails on. The lane's goroutine writes it; others read the published
// pointer.
type failing struct {
	since int64 // by Engine.elapsed; moved forward by the time that the partition has served meanwhile
	last  int64
	err   error
}

// failed records that the partition could not be claimed, loaded or written. Another node owning it is no
// failure.
func (p *partitionRunner) failed(err error) {
	now := p.e.elapsed()
	f := &failing{since: now, last: now, err: err}
	if old := p.failing.Load(); old != nil && p.fails(old, now) {
		f.since = old.since
		if p.serving.Load() {
			f.since += now - p.beganAt.Load()
		}
	}
	p.failing.Store(f)
}

// fails reports whether a failure still counts: no term has lasted for steadyFor since.
func (p *partitionRunner) fails(f *failing, now int64) bool {
	return !p.serving.Load() || now-f.last < int64(steadyFor)
}

// Failing returns, by partition, what the node is to own and fails to claim, load or write.
func (e *Engine) Failing() (out []Failure) {
	now := e.elapsed()
	for _, p := range e.parts {
		if f := p.failing.Load(); f != nil && p.wanted.Load() && p.fails(f, now) {
			until := now
			if p.serving.Load() {
				until = max(f.last, p.beganAt.Load())
			}
			out = append(out, Failure{p.number, time.Duration(until - f.since), time.Duration(now - until), f.err})
		}
	}
	return out
}
