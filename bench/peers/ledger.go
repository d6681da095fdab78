package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// verdict is what a ledger says in the end.
type verdict struct {
	Expected int64 `json:"expected"`
	Done     int64 `json:"done"`
	Missing  int64 `json:"missing"`
	Doubled  int64 `json:"doubled"`
	Early    int64 `json:"early"`
	Left     int64 `json:"left"` // what the server still held when the time was over, or held too much
}

// String is the verdict for people.
func (v verdict) String() string {
	words := []string{fmt.Sprintf("%d of %d", v.Done, v.Expected)}
	for _, fault := range []struct {
		n    int64
		name string
	}{{v.Missing, "missing"}, {v.Doubled, "doubled"}, {v.Early, "early"}, {v.Left, "left"}} {
		if fault.n != 0 {
			words = append(words, fmt.Sprintf("%d %s", fault.n, fault.name))
		}
	}
	return strings.Join(words, ", ")
}

// ledger knows which runs there should be and which there were. It may be used by many goroutines.
type ledger struct {
	first int             // number of the first job
	due   []atomic.Int64  // ns
	came  []atomic.Int64  // ns, of the first run
	runs  []atomic.Uint32 // of each job
	done  atomic.Int64    // jobs that have run
	all   chan struct{}   // closed when all have
}

func newLedger(first, n int) *ledger {
	return &ledger{first: first, due: make([]atomic.Int64, n), came: make([]atomic.Int64, n),
		runs: make([]atomic.Uint32, n), all: make(chan struct{})}
}

// plan says when a job is due; it comes before the put, because the run may come before the acknowledgement.
func (l *ledger) plan(j job) { l.due[j.n-l.first].Store(j.due.UnixNano()) }

// enter enters a run. Runs of other jobs, from a measure before this one, are not for this ledger.
func (l *ledger) enter(n int) {
	now := time.Now().UnixNano()
	i := n - l.first
	if i < 0 || i >= len(l.due) || l.runs[i].Add(1) > 1 {
		return
	}
	l.came[i].Store(now)
	if l.done.Add(1) == int64(len(l.due)) {
		close(l.all)
	}
}

// verdict counts; left is what the server holds.
func (l *ledger) verdict(left int) verdict {
	v := verdict{Expected: int64(len(l.due)), Left: int64(left)}
	for i := range l.due {
		runs := int64(l.runs[i].Load())
		if runs == 0 {
			v.Missing++
			continue
		}
		v.Done++
		v.Doubled += runs - 1
		if l.came[i].Load() < l.due[i].Load() {
			v.Early++
		}
	}
	return v
}

// lateness is how late the runs were.
func (l *ledger) lateness() *quantiles {
	var late []time.Duration
	for i := range l.due {
		if came := l.came[i].Load(); came != 0 {
			late = append(late, time.Duration(came-l.due[i].Load()))
		}
	}
	return quantilesOf(late)
}

// quantiles are milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// quantilesOf sorts the durations; without any there are no quantiles.
func quantilesOf(d []time.Duration) *quantiles {
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	at := func(part float64) float64 { return float64(d[int(part*float64(len(d)-1))].Microseconds()) / 1000 }
	return &quantiles{P50: at(0.5), P99: at(0.99), Max: at(1)}
}
