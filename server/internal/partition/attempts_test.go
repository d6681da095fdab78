package partition

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestTheAgeBudgetIsSpentEvenly: as many attempts as are meant for each grantAfter, and the very old ones.
func TestTheAgeBudgetIsSpentEvenly(t *testing.T) {
	a := &Attempts{cfg: &Config{GrantsKept: 10}}
	const step = int64(grantAfter / 1000)
	kept := 0
	for now := int64(5000); now < 9000; now++ {
		if a.mayKeep(&entry{attempt: attempt{granted: (now - 1000) * step}}, now*step) {
			kept++
		}
	}
	if kept < 40 || kept > 51 { // ten each in four periods, and what was not spent in the one before
		t.Errorf("%d attempts were kept", kept)
	}
	if a.mayKeep(&entry{attempt: attempt{granted: 8000 * step}}, 8999*step) {
		t.Error("the budget is spent, and yet an attempt was kept")
	}
	if !a.mayKeep(&entry{attempt: attempt{granted: 0}}, keepLatest*1000*step) {
		t.Error("an attempt of ten times the age was not kept")
	}
}

// TestAnEndedAttemptLeavesNothing behind that the next one could be taken for.
func TestAnEndedAttemptLeavesNothing(t *testing.T) {
	out := &builder{seq: 7}
	queues := &Queues{out: out}
	cfg := Config{}.withDefaults()
	due := &dueRuns{out: out, queues: queues, permits: newPermits(&cfg, out, queues)}
	a := newAttempts(&Config{}, nil, nil, nil, due)
	e := &entry{timer: -1}
	e.permits = e.permits.and(delivery.Limit{Key: "k"})
	if a.begin(e, handedOut); e.place != running || a.grants != 1 || e.attempt.since != 7 {
		t.Fatalf("it began as %+v", e.attempt)
	}
	e.attempt.pending, e.attempt.known = 3, true
	if a.end(e, false); e.attempt != (attempt{}) || e.permits != nil || e.place != idle || a.grants != 0 {
		t.Errorf("it left %+v, and %d in force", e.attempt, a.grants)
	}
	if len(out.permits) != 1 {
		t.Error("its permit is not returned with the batch")
	}
}
