package bench

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
)

// Verdict is what a ledger says in the end.
type Verdict struct {
	Expected  int64 `json:"expected"`
	Delivered int64 `json:"delivered"`
	Missing   int64 `json:"missing"`
	Early     int64 `json:"early"`
	Doubled   int64 `json:"doubled"`
	Unknown   int64 `json:"unknown"` // runs that nobody asked for
	Stale     int64 `json:"stale"`   // results that the node refused
}

// Clean reports whether everything that was expected came, once, not early, and nothing else.
func (v *Verdict) Clean() bool {
	return v.Missing == 0 && v.Early == 0 && v.Doubled == 0 && v.Unknown == 0 && v.Stale == 0
}

// String is the verdict for people.
func (v *Verdict) String() string {
	if v.Clean() {
		return fmt.Sprintf("clean: %d of %d delivered once", v.Delivered, v.Expected)
	}
	return fmt.Sprintf("NOT CLEAN: %d expected, %d delivered, %d missing, %d early, %d doubled, %d unknown, %d stale",
		v.Expected, v.Delivered, v.Missing, v.Early, v.Doubled, v.Unknown, v.Stale)
}

// ledger knows which one-shots there should be, by number, and which were delivered. It may be used from many
// goroutines.
type ledger struct {
	prefix string
	due    []atomic.Int64  // ns; 0 = not planned
	acked  []atomic.Bool   // the put was acknowledged, so the run must come
	seen   []atomic.Uint32 // deliveries

	delivered, early, unknown atomic.Int64
	first, last               atomic.Int64 // receive times, ns
	done                      chan struct{}
}

func newLedger(prefix string, n int) *ledger {
	return &ledger{prefix: prefix, due: make([]atomic.Int64, n), acked: make([]atomic.Bool, n),
		seen: make([]atomic.Uint32, n), done: make(chan struct{})}
}

// name is the i-th job's.
func (l *ledger) name(i int) string { return l.prefix + strconv.Itoa(i) }

// number is the reverse; ok is false for a job of somebody else.
func (l *ledger) number(name string) (i int, ok bool) {
	rest, ok := strings.CutPrefix(name, l.prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(rest)
	return i, err == nil && i >= 0 && i < len(l.due)
}

// plan says when the i-th job will be due; it comes before the put, because the run may come before the
// acknowledgement.
func (l *ledger) plan(i int, due time.Time) { l.due[i].Store(due.UnixNano()) }

// ack says that the put was acknowledged.
func (l *ledger) ack(i int) { l.acked[i].Store(true) }

// deliver enters a delivery and returns how late it was; ok is false if nobody asked for it.
func (l *ledger) deliver(job string, at time.Time) (late time.Duration, ok bool) {
	i, ok := l.number(job)
	if !ok || l.due[i].Load() == 0 {
		l.unknown.Add(1)
		return 0, false
	}
	now := at.UnixNano()
	late = time.Duration(now - l.due[i].Load())
	if late < 0 {
		l.early.Add(1)
	}
	if l.seen[i].Add(1) > 1 {
		return late, true
	}
	l.first.CompareAndSwap(0, now)
	l.last.Store(now)
	if l.delivered.Add(1) == int64(len(l.due)) {
		close(l.done)
	}
	return late, true
}

// span is from the first delivery to the last.
func (l *ledger) span() time.Duration { return time.Duration(l.last.Load() - l.first.Load()) }

func (l *ledger) verdict() *Verdict {
	v := &Verdict{Early: l.early.Load(), Unknown: l.unknown.Load()}
	for i := range l.due {
		n := int64(l.seen[i].Load())
		if l.acked[i].Load() {
			v.Expected++
			if n == 0 {
				v.Missing++
			}
		}
		if n > 0 {
			v.Delivered++
			v.Doubled += n - 1
		}
	}
	return v
}

// sink is where a consumer enters what it receives.
type sink interface {
	// receive returns how late the run is; ok is false if it does not count.
	receive(run *carillon.Run, at time.Time) (late time.Duration, ok bool)
}

func (l *ledger) receive(run *carillon.Run, at time.Time) (time.Duration, bool) {
	return l.deliver(run.Job, at)
}
