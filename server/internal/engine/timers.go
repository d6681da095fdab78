package engine

import "time"

// pollEvery is the interval of the safety poll that runs beside the exact timer.
const pollEvery = time.Second

// sweepEvery is how often the store is searched for what is kept for a while only: finished runs, markers,
// backfills.
const sweepEvery = time.Minute

// timers say when a partition needs a round, and what that round does that no event triggers. Times are by
// Engine.elapsed, not by the node's clock, which may be set back and would stop the poll.
type timers struct {
	owed   bool  // a round was requested while none could run
	wake   int64 // when the next round is due without mail
	polled int64
	swept  int64

	sweepOn bool // the sweep of audit entries goes on
}

// requested reports whether a round was requested while none could run, once.
func (t *timers) requested() bool {
	owed := t.owed
	t.owed = false
	return owed
}

// pollDue reports whether it is time to poll, once every pollEvery.
func (t *timers) pollDue(now int64) bool { return due(&t.polled, now, pollEvery) }

// sweepDue reports whether it is time to sweep, once every sweepEvery; not at first.
func (t *timers) sweepDue(now int64) bool {
	if t.swept == 0 {
		t.swept = now
	}
	return due(&t.swept, now, sweepEvery)
}

// due reports whether it is time for what is to be done so often, and was done last at last; 0 is never.
func due(last *int64, now int64, every time.Duration) bool {
	if *last != 0 && now-*last < int64(every) {
		return false
	}
	*last = now
	return true
}
