package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// TestAPauseDoesNotTakeBackATimeOfAnEarlierSchedule pauses a job whose run has waited since before its
// schedule was changed.
func TestAPauseDoesNotTakeBackATimeOfAnEarlierSchedule(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.advance(500 * time.Millisecond)
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	r.advance(10 * time.Second)
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * * *"})
	r.pause("a", true)
	r.bring(keyOf("a"))
	if _, err := r.m.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{CatchUp: true}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.bring(keyOf("a"))
	j, err := r.m.Records.Job(keyOf("a"))
	if err != nil || j.Status.NextRun.Nanosecond() != 0 {
		t.Fatalf("the next run is at %v, %v", j.Status.NextRun, err)
	}
	if n := r.passedOver("a"); n[partition.ReasonPaused] != 1 {
		t.Errorf("passed over: %v", n)
	}
}
