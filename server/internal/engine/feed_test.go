package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

func TestStagedUntilAWorkerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10_000
		ctx := context.Background()
		s := memory.New(memory.Options{})
		n := start(t, s)
		for i := 0; i < jobs; i += 1000 {
			batch := make([]carillon.Job, 1000)
			for k := range batch {
				batch[k] = carillon.Job{Name: fmt.Sprintf("s/%d", i+k), Target: carillon.WorkerQueue("q")}
			}
			if _, err := n.PutJobs(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := n.Stats(); st.Resident != 0 {
			t.Fatalf("staged runs are in memory: %+v", st)
		}
		n.stop()
		n = start(t, s)
		time.Sleep(5 * time.Second)
		c := n.consume("q", 1000, success)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := c.got(); len(got) != jobs {
			t.Fatalf("%d of %d delivered", len(got), jobs)
		}
		for _, r := range c.got() {
			if r.Attempt != 1 {
				t.Fatalf("attempt %d", r.Attempt)
			}
		}
		n.stop()
	})
}
