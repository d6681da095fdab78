package sim

import (
	"sync"
	"time"
)

// Ledger is what clients, workers and the nemesis wrote down, in order.
type Ledger struct {
	mu       sync.Mutex
	Ops      []Op
	Attempts []Attempt
	Results  []Result
	Faults   []Fault
	History  []Ended // read at the end
	Left     []string
	End      time.Time // when the last fault had healed and everything due had time to run
}

// Outcome of an operation as its caller knows it.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Failed
	Unknown
)

// Op is one operation of a client on a job.
type Op struct {
	Kind     string // put, delete, pause, resume, trigger
	Job      string
	From, To time.Time // call and return
	Outcome  Outcome
	Spec     Spec      // of a put
	First    time.Time // of a put: the next run that the reply told of
	UID      string    // of a put
	RunID    string    // of a trigger
}

// Spec is what the checker needs to know of a job.
type Spec struct {
	Every   time.Duration // 0: a one-shot
	Delay   time.Duration // between a failure and the next attempt
	Retries int
	Lease   time.Duration
	Overlap string
	Misfire string
}

// Attempt is one run handed to a worker.
type Attempt struct {
	RunID     string
	Job       string
	Cause     string
	Scheduled time.Time
	Number    int
	Token     string
	At        time.Time
}

// Result is what a worker said of an attempt, and what it was told.
type Result struct {
	RunID   string
	Token   string
	Number  int
	Success bool
	Sent    time.Time
	Told    time.Time // zero: nothing was told
	Acked   bool      // told that it is durable; otherwise that it is stale
}

// Fault is one thing that the nemesis did.
type Fault struct {
	Kind     string
	From, To time.Time
}

// Ended is a finished run, or a stretch of times that did not run, as the history has it.
type Ended struct {
	RunID     string
	Job       string
	Status    string
	Cause     string
	Scheduled time.Time
	From      time.Time
	Skipped   uint64
	Attempt   int
}

func (l *Ledger) op(o Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Ops = append(l.Ops, o)
}

func (l *Ledger) attempt(a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Attempts = append(l.Attempts, a)
}

// sent notes a result and returns its place, for told.
func (l *Ledger) sent(r Result) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Results = append(l.Results, r)
	return len(l.Results) - 1
}

func (l *Ledger) told(i int, acked bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Results[i].Told.IsZero() {
		l.Results[i].Told, l.Results[i].Acked = at, acked
	}
}

func (l *Ledger) fault(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Faults = append(l.Faults, f)
}
