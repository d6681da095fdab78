package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store/memory"
)

// TestABatchOfSeveralPartitionsMayHoldAJobThatCouldNotBeginAnew: one of its jobs is expired while its last
// run goes on.
func TestABatchOfSeveralPartitionsMayHoldAJobThatCouldNotBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 5}))
		c := n.consume("q", 10, func(r carillon.Run) *carillon.Result {
			if r.Job == "old" {
				return nil // it takes its time
			}
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		old := carillon.Job{Name: "old", Schedule: "@every 10s", TTL: carillon.At(time.Now().Add(15 * time.Second)), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(context.Background(), old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		jobs := batchJobs()[:7]
		jobs[6] = old
		if _, err := n.PutJobs(context.Background(), jobs); err != nil {
			t.Fatalf("unchanged: %v", err)
		}
		jobs[6].Labels = map[string]string{"a": "b"}
		if puts, err := n.PutJobs(context.Background(), jobs); err != nil || puts[6].Job.Labels["a"] != "b" {
			t.Fatalf("with a label: %+v %v", puts, err)
		}
		jobs[6].Schedule = "@every 11s"
		if _, err := n.PutJobs(context.Background(), jobs); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Fatalf("with times that are over: %v", err)
		}
		n.stop()
		<-c.done
	})
}

// TestARunThatEndsOnItsWayCannotBeRedrivenTwice: redrives and cancels a dead run while the store still has it
// as dead.
func TestARunThatEndsOnItsWayCannotBeRedrivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 10, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Permanent: true}
		})
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Schedule: "@yearly", Target: carillon.WorkerQueue("q"),
			FailurePolicy: carillon.FailurePolicy{OnExhausted: carillon.ExhaustedDead}}); err != nil {
			t.Fatal(err)
		}
		run, err := n.TriggerJob(context.Background(), carillon.Key{Namespace: "default", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.fail(func(apply func() error) error {
			time.Sleep(time.Second)
			return apply()
		})
		done := make(chan error, 2)
		go func() {
			_, err := n.RedriveRun(context.Background(), "default", run.ID)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		go func() {
			_, err := n.CancelRun(context.Background(), "default", run.ID)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		if _, err := n.RedriveRun(context.Background(), "default", run.ID); carillon.KindOf(err) != carillon.FailedPrecondition {
			t.Errorf("a cancelled run is redriven: %v", err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		f.fail(nil)
		if r, err := n.GetRun(context.Background(), "default", run.ID); err != nil || r.Status != carillon.RunCancelled {
			t.Errorf("%+v %v", r, err)
		}
		n.stop()
		<-c.done
	})
}
