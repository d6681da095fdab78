package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// firedRig is a rig that records the Fired events.
func firedRig(t *testing.T) (r *rig, fired *[]delivery.Fired) {
	fired = new([]delivery.Fired)
	return newRig(t, partition.Config{Events: partition.Events{Fired: func(f delivery.Fired) {
		*fired = append(*fired, f)
	}}}), fired
}

func TestAPutIntoThePastIsNotLate(t *testing.T) {
	r, fired := firedRig(t)
	r.mustPut(carillon.Job{Name: "late", Due: carillon.At(time.Unix(0, epoch).Add(-24 * time.Hour))})
	r.advance(3 * time.Second)
	r.deliver(1)
	if got := (*fired)[0].Lateness; got != 3*time.Second {
		t.Errorf("%v late", got)
	}
}

func TestAJobThatWaitedIsLate(t *testing.T) {
	r, fired := firedRig(t)
	r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch).Add(time.Minute))})
	r.advance(time.Hour)
	r.deliver(1)
	if got := (*fired)[0].Lateness; got != 59*time.Minute {
		t.Errorf("%v late", got)
	}
}

func TestRetriesAreTheAttemptsAfterTheFirst(t *testing.T) {
	r, fired := firedRig(t)
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(5)})
	r.failRun(r.deliver(1)[0])
	r.flush()
	r.advance(time.Second)
	r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeReschedule,
		At: time.Unix(0, r.now).Add(time.Second)})
	r.flush()
	r.advance(time.Second)
	r.failRun(r.deliver(1)[0])
	r.flush()
	r.advance(time.Second)
	r.deliver(1)
	var retries []bool
	for _, f := range *fired {
		retries = append(retries, f.Retry)
	}
	if !slices.Equal(retries, []bool{false, true, false, true}) {
		t.Errorf("retries: %v", retries)
	}
}

func TestTheQueueThatHoldsAnAttemptIsToldToStop(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("q")})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("other")})
	if len(r.cancels) != 1 || r.cancels[0].Token != d.Run.Token || r.cancels[0].Queue != queueQ {
		t.Fatalf("cancels %+v", r.cancels)
	}
}

// TestCancelNamesTheQueueOfTheAttempt, also when the memory of its queue has been reused for another one.
func TestCancelNamesTheQueueOfTheAttempt(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "first", Timeout: 5 * time.Second, Due: carillon.At(time.Unix(0, r.now))})
	if n := len(r.deliver(1)); n != 1 {
		t.Fatalf("%d attempts, want 1", n)
	}
	r.step() // the queue is forgotten
	r.mustPut(carillon.Job{Name: "second", Target: carillon.WorkerQueue("other"),
		Due: carillon.At(time.Unix(0, r.now))})
	r.advance(5 * time.Second)
	if len(r.cancels) != 1 || r.cancels[0].Queue != queueQ {
		t.Errorf("cancels after the timeout: %+v, want one to %v", r.cancels, queueQ)
	}
}
