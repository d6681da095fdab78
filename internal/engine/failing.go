package engine

import "time"

// Failure is why and for how long a partition that the node is to own could not be claimed, loaded or written.
type Failure struct {
	Partition int
	For       time.Duration // without the terms in between
	Ago       time.Duration // since that was over, if it has a term again; otherwise 0: it still fails
	Err       error         // the newest
}

// steadyFor is how long a term must last without a failure until those before it are forgotten.
const steadyFor = 2 * time.Second

// failing is what a partition fails on. It is of the lane's goroutine; others read what is published.
type failing struct {
	since int64 // by Engine.elapsed; later by as much as it has served meanwhile
	last  int64
	err   error
}

// failed notes that the partition could not be claimed, loaded or written. That another node owns it is no failure.
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

// fails reports whether a failure is not over yet: no term has lasted since.
func (p *partitionRunner) fails(f *failing, now int64) bool {
	return !p.serving.Load() || now-f.last < int64(steadyFor)
}

// Failing is what the node is to own and fails to claim, to load or to write, by partition.
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
