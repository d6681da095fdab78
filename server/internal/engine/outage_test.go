package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// failEach makes the next write of each of some partitions fail once, so that each loses its term.
func failEach(t *testing.T, n *node, f *faulty, partitions ...int) {
	t.Helper()
	ctx := context.Background()
	for _, p := range partitions {
		f.fail(func(func() error) error {
			f.fail(nil)
			return fmt.Errorf("%w: lost", store.ErrUnknown)
		})
		job := carillon.Job{Namespace: carillon.DefaultNamespace, Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q")}
		for i := 0; job.Name == "" || store.PartitionOf(job.Key(), 4) != p; i++ {
			job.Name = fmt.Sprint("job/", i)
		}
		if _, err := n.PutJob(ctx, job); err == nil {
			t.Error("the write has not failed")
		}
	}
}

// TestMostTermsLostTogetherAreAnOutage: a single one is not, however often it is lost.
func TestMostTermsLostTogetherAreAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 4})}
		n := startWith(t, engine.Config{Store: f, Lanes: 4, LeaseTTL: 3 * time.Second})
		settle := func(d time.Duration) {
			time.Sleep(d)
			if err := n.Ready(); err != nil {
				t.Error(err)
			}
		}
		none := func(what string) {
			if ago, ever := n.Outage(); ever {
				t.Errorf("%s: an outage %v ago", what, ago)
			}
		}
		none("at first")
		for range 10 {
			failEach(t, n, f, 2)
			none("one partition")
			settle(600 * time.Millisecond)
		}
		for _, p := range []int{0, 1, 3} {
			settle(1100 * time.Millisecond)
			failEach(t, n, f, p)
			none("one after the other")
		}
		settle(5 * time.Second)
		failEach(t, n, f, 0, 1)
		none("half of them")
		settle(5 * time.Second)
		failEach(t, n, f, 0, 1, 3)
		settle(700 * time.Millisecond)
		failEach(t, n, f, 1)
		if ago, ever := n.Outage(); !ever || ago > 700*time.Millisecond {
			t.Errorf("three of four: %v ago, %v", ago, ever)
		}
		settle(2 * time.Second)
		failEach(t, n, f, 1)
		if ago, ever := n.Outage(); !ever || ago < 2*time.Second {
			t.Errorf("one that goes on failing is another: %v ago, %v", ago, ever)
		}
		n.stop()
	})
}
