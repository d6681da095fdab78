package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/memory"
)

func workerQueue(name string) partition.Queue {
	return partition.Queue{Namespace: "default", Kind: "worker", Address: name}
}

// store puts a job as it is.
func (n *node) store(j carillon.Job) {
	n.t.Helper()
	if _, err := n.PutJob(n.t.Context(), j); err != nil {
		n.t.Fatal(err)
	}
}

func TestStagedAndDeadAreKnownAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		n := start(t, s)
		c := n.consume("doomed", 10, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"}
		})
		n.store(carillon.Job{Name: "doomed", Target: carillon.WorkerQueue("doomed"), FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
		due := time.Now()
		for i := range 30 {
			n.store(carillon.Job{Name: fmt.Sprint("lonely/", i), Target: carillon.WorkerQueue("lonely"), Due: carillon.At(due)})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want := engine.Backlog{Staged: 30, Oldest: due.UnixNano()}
		n.stop()
		<-c.done

		n = start(t, s)
		synctest.Wait()
		if got := n.Backlog()[workerQueue("lonely")]; got != want {
			t.Errorf("at once: %+v, want %+v", got, want)
		}
		if got := n.Dead(); len(got) != 1 || got["default"] != 1 {
			t.Errorf("dead: %v", got)
		}
		c = n.consume("lonely", 100, func(carillon.Run) *carillon.Result { return &carillon.Result{Outcome: carillon.OutcomeSuccess} })
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got := n.Backlog(); len(got) != 0 {
			t.Errorf("nothing waits any more: %+v", got)
		}
		n.stop()
		<-c.done
	})
}

func TestWhatWaitsForAPermitIsInItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		if _, err := n.PutNamespace(t.Context(), carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"k": 1}}); err != nil {
			t.Fatal(err)
		}
		c := n.consume("q", 100, func(carillon.Run) *carillon.Result { return nil })
		for i := range 8 {
			n.store(carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue("q"), ConcurrencyKey: "k"})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := n.Backlog(); len(got) > 1 || len(got) == 1 && got[workerQueue("q")].Staged == 0 {
			t.Errorf("%+v", got)
		}
		n.stop()
		<-c.done
	})
}

func TestMissingJobsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		n.store(carillon.Job{Name: "late", Target: carillon.WorkerQueue("q"), DependsOn: []string{"nobody"}, Due: carillon.In(0)})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := n.Missing(); got != 1 {
			t.Errorf("%d missing", got)
		}
		n.store(carillon.Job{Name: "nobody", Target: carillon.WorkerQueue("q"), Due: carillon.In(time.Hour)})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := n.Missing(); got != 0 {
			t.Errorf("%d missing, and none is", got)
		}
		n.stop()
	})
}
