package checker

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Recorder collects a history from many goroutines. It never waits for anything but its own lock, and holds
// that for an append only, so it may be used in a bubble.
type Recorder struct {
	now func() time.Time
	mu  sync.Mutex
	h   History
}

// NewRecorder begins a history now. The harness's clock is now; nil = time.Now.
func NewRecorder(profile string, seed uint64, build string, c Constants, now func() time.Time) *Recorder {
	if now == nil {
		now = time.Now
	}
	return &Recorder{now: now, h: History{Profile: profile, Seed: seed, Build: build,
		Constants: c, Start: now()}}
}

// Begin notes the call of an operation and returns what notes its return: with how it went and, if not nil, a
// function that fills in the answer. An operation that never returns stays in the history as Info.
func (r *Recorder) Begin(o Op) func(outcome Outcome, fill func(*Op)) {
	o.Invoke, o.Outcome = r.now(), Info
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ops = append(r.h.Ops, o)
	i := len(r.h.Ops) - 1
	return func(outcome Outcome, fill func(*Op)) {
		at := r.now()
		r.mu.Lock()
		defer r.mu.Unlock()
		op := &r.h.Ops[i]
		op.Outcome, op.Return = outcome, at
		if fill != nil {
			fill(op)
		}
	}
}

// Op appends an operation that is over.
func (r *Recorder) Op(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ops = append(r.h.Ops, o)
}

// Attempt notes that a run came to a worker. A zero At is now.
func (r *Recorder) Attempt(a Attempt) {
	if a.At.IsZero() {
		a.At = r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Attempts = append(r.h.Attempts, a)
}

// Begun notes that a worker began an attempt that had waited for it. A zero At is now.
func (r *Recorder) Begun(b Begin) {
	if b.At.IsZero() {
		b.At = r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Begins = append(r.h.Begins, b)
}

// Sent notes that a result is about to be sent, and returns its place, for Told. A zero Sent is now.
func (r *Recorder) Sent(res Result) int {
	if res.Sent.IsZero() {
		res.Sent = r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Results = append(r.h.Results, res)
	return len(r.h.Results) - 1
}

// Told notes the answer to the result at a place. The first one counts, except that acked replaces stale: a
// worker hears of a stale token, and that may have been said of a heartbeat that came after the result.
func (r *Recorder) Told(i int, v ResultVerdict) {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if res := &r.h.Results[i]; res.Told.IsZero() || (res.Verdict == Stale && v == Acked) {
		res.Told, res.Verdict = at, v
	}
}

// Heartbeat notes a sign of life. A zero At is now.
func (r *Recorder) Heartbeat(b Heartbeat) {
	if b.At.IsZero() {
		b.At = r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Heartbeats = append(r.h.Heartbeats, b)
}

// Break notes the beginning of a fault and returns what notes that it has healed.
func (r *Recorder) Break(f Fault) func() {
	f.From = r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Faults = append(r.h.Faults, f)
	i := len(r.h.Faults) - 1
	return func() {
		at := r.now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.h.Faults[i].To = at
	}
}

// Fault appends a fault that is over.
func (r *Recorder) Fault(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Faults = append(r.h.Faults, f)
}

// Gate appends a limit that is over.
func (r *Recorder) Gate(g Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Gates = append(r.h.Gates, g)
}

// Claim appends a claim of a partition.
func (r *Recorder) Claim(c Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Claims = append(r.h.Claims, c)
}

// Release appends that a partition was given up.
func (r *Recorder) Release(x Release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Releases = append(r.h.Releases, x)
}

// Home notes which partition a job is in.
func (r *Recorder) Home(namespace, name string, partition int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.h.Homes == nil {
		r.h.Homes = map[string]int{}
	}
	r.h.Homes[key{namespace, name}.String()] = partition
}

// Write appends a write of the store, in commit order.
func (r *Recorder) Write(w Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Writes = append(r.h.Writes, w)
}

// Heal notes that the last fault is over.
func (r *Recorder) Heal() {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Healed = at
}

// Finish notes what was read at the end. A fault that nobody healed lasts until now.
func (r *Recorder) Finish(f Final) {
	at := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.End, r.h.Final = at, f
	if r.h.Healed.IsZero() {
		r.h.Healed = r.h.Start
	}
	for i := range r.h.Faults {
		if r.h.Faults[i].To.IsZero() {
			r.h.Faults[i].To = at
		}
	}
}

// History is a copy of what has been written down so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	h.Ops, h.Attempts, h.Results = slices.Clone(h.Ops), slices.Clone(h.Attempts), slices.Clone(h.Results)
	h.Heartbeats, h.Faults, h.Begins = slices.Clone(h.Heartbeats), slices.Clone(h.Faults), slices.Clone(h.Begins)
	h.Gates = slices.Clone(h.Gates)
	h.Claims, h.Writes = slices.Clone(h.Claims), slices.Clone(h.Writes)
	h.Releases, h.Homes = slices.Clone(h.Releases), maps.Clone(h.Homes)
	return h
}

// Encode writes a history as JSON.
func (h History) Encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(h); err != nil {
		return fmt.Errorf("checker: write the history: %w", err)
	}
	return nil
}

// Decode reads a history that Encode wrote.
func Decode(r io.Reader) (History, error) {
	var h History
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return History{}, fmt.Errorf("checker: read the history: %w", err)
	}
	return h, nil
}
