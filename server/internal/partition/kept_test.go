package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestARunWhoseStreamEndedIsNotSkipped: its attempt does not count, but a consumer has had it. So a job that
// is paused before the run is handed out again does not record it as skipped.
func TestARunWhoseStreamEndedIsNotSkipped(t *testing.T) {
	for name, end := range map[string]func(r *rig, d delivery.Delivery){
		"the stream ended":    func(r *rig, d delivery.Delivery) { r.hangUp(d) },
		"the node was killed": func(r *rig, _ delivery.Delivery) { r.start() },
		"nothing is heard of its stream": func(r *rig, _ delivery.Delivery) {
			r.m.Attempts.HandOver(r.now)
			r.flush()
			r.start()
			r.bring(keyOf(daprName("a")))
			r.advance(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(daprJob(carillon.Job{Name: "a", Schedule: "@every 1h"}))
			r.advance(time.Hour)
			d := r.sendOne()
			r.advance(5 * time.Second)
			end(r, d)
			r.pause(daprName("a"), true)
			if n := r.passedOver(daprName("a")); len(n) != 0 {
				t.Errorf("passed over: %v", n)
			}
			again := r.sendOne()
			if again.Run.ID != d.Run.ID || again.Run.Attempt != 1 {
				t.Errorf("attempt %d of %s came, not of %s", again.Run.Attempt, again.Run.ID, d.Run.ID)
			}
			if v := r.succeed(again); v != partition.Accepted {
				t.Error(v)
			}
		})
	}
}
