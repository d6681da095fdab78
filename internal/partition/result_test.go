package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// TestTheFirstFailureOfAnAttemptCounts: two consumers may have one attempt that was in doubt. If the second
// reports the same as the first, it gets the same answer. If it asks for no retry of what is already being
// retried, it does not.
func TestTheFirstFailureOfAnAttemptCounts(t *testing.T) {
	for _, c := range []struct {
		name      string
		permanent bool
		want      partition.Verdict
	}{
		{"again", false, partition.Accepted},
		{"and permanent", true, partition.Stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a"})
			d := r.deliver(1)[0]
			if v := r.failRun(d); v != partition.Accepted {
				t.Fatalf("the first failure is answered %d", v)
			}
			r.flush()
			if v := r.report(d, carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no", Permanent: c.permanent}); v != c.want {
				t.Errorf("the second is answered %d, want %d", v, c.want)
			}
			r.advance(time.Minute)
			if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 2 {
				t.Errorf("the next attempt: %+v", ds)
			}
		})
	}
}
