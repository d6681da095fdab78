package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
)

// TestAnAttemptInDoubtHoldsOneSlot of a worker that stays and gets it twice: the store fails while the attempt is written, so that
// the node cannot know whether it was.
func TestAnAttemptInDoubtHoldsOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		times := 0
		c := n.consume("q", 4, func(carillon.Run) *carillon.Result {
			if times++; times == 1 {
				return nil
			}
			return success(carillon.Run{})
		})
		job := carillon.Job{Name: "a", Schedule: "@every 1m", Repeats: 1, Lease: 10 * time.Second, Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + 100*time.Millisecond)
		f.fail(func(func() error) error { // of the batch that makes the attempt durable for its age
			f.fail(nil)
			return fmt.Errorf("%w: lost", store.ErrUnknown)
		})
		time.Sleep(time.Minute)
		if got := c.got(); len(got) != 2 || got[0].Token != got[1].Token {
			t.Errorf("the same attempt twice is wanted: %+v", got)
		}
		if slots := n.inFlight(); slots != 0 {
			t.Errorf("%d slots are held though nobody has anything", slots)
		}
		n.stop()
	})
}
