package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestDuplicatesAreStoppedOnceAResultIsDurable, and not before: the result may be lost, and theirs be the one
// that counts.
func TestDuplicatesAreStoppedOnceAResultIsDurable(t *testing.T) {
	for name, report := range map[string]func(r *rig, d delivery.Delivery) partition.Verdict{
		"success": (*rig).succeed,
		"failure": (*rig).failRun,
		"later": func(r *rig, d delivery.Delivery) partition.Verdict {
			return r.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule,
				At: time.Unix(0, r.now).Add(time.Hour)})
		},
	} {
		r := newRig(t, partition.Config{})
		d := r.again(r.left(carillon.Job{}))
		r.cancels = nil
		if v := report(r, d); v != partition.Accepted {
			t.Fatalf("%s: %v", name, v)
		}
		r.step()
		r.take()
		r.step()
		if len(r.cancels) > 0 {
			t.Errorf("%s: stopped before it is durable: %+v", name, r.cancels)
		}
		r.land()
		r.step()
		if len(r.cancels) != 1 || r.cancels[0].Token != d.Run.Token || r.cancels[0].Queue != queueQ {
			t.Errorf("%s: stopped are %+v", name, r.cancels)
		}
	}
}

func TestAnAttemptWithOneConsumerIsNotStopped(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	r.succeed(r.deliver(1)[0])
	r.flush()
	if len(r.cancels) > 0 {
		t.Errorf("stopped are %+v", r.cancels)
	}
}
