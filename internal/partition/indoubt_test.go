package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// TestWhatLeftIsNotPassedOver kills the owner right after it has handed out a time of which the store knows nothing.
func TestWhatLeftIsNotPassedOver(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapSkip, carillon.OverlapAllow, carillon.OverlapReplace} {
		for _, misfire := range []carillon.Misfire{carillon.MisfireLatest, carillon.MisfireSkip, carillon.MisfireAll} {
			t.Run(overlap.String()+" "+misfire.String(), func(t *testing.T) {
				r := newRig(t, partition.Config{})
				r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: overlap, Misfire: misfire})
				r.advance(10 * time.Second)
				left := r.deliver(1)[0]
				r.advance(500 * time.Millisecond)
				r.now += int64(57 * time.Second) // killed
				r.start()
				r.flush()
				again := r.deliver(1)
				if len(again) != 1 || again[0].Run.ID != left.Run.ID || again[0].Run.Token != left.Run.Token {
					t.Fatalf("after a kill %+v was handed out, want what had been: %+v", again, left)
				}
				r.succeed(again[0])
				r.flush()
				got := append([]int{10}, r.workOff()...)
				for _, h := range r.history("a") {
					if h.ID.String() == left.Run.ID && h.Status == carillon.RunSkipped {
						t.Errorf("what had left is skipped: %+v", h)
					}
				}
				if slices.Contains(got[1:], 10) {
					t.Errorf("it ran %v", got)
				}
			})
		}
	}
}
