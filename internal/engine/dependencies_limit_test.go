package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store/memory"
)

// TestTooManyDependentsNameTheJob: puts as many jobs that depend on one job as there may be, and then some
// more.
func TestTooManyDependentsNameTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		job := func(i int) carillon.Job {
			return carillon.Job{Name: fmt.Sprint("after/", i), Due: carillon.In(time.Hour), DependsOn: []string{"other", "first"},
				Target: carillon.WorkerQueue("q")}
		}
		for from := 0; from < partition.MaxDependents; from += carillon.MaxBatch {
			jobs := make([]carillon.Job, carillon.MaxBatch)
			for i := range jobs {
				jobs[i] = job(from + i)
				jobs[i].DependsOn = []string{"first"}
			}
			if _, err := n.PutJobs(context.Background(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		_, one := n.PutJob(context.Background(), job(partition.MaxDependents))
		plain := carillon.Job{Name: "plain", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		_, batch := n.PutJobs(context.Background(), []carillon.Job{plain, job(partition.MaxDependents)})
		for field, err := range map[string]error{"depends_on[1]": one, "jobs[1].depends_on[1]": batch} {
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.ResourceExhausted || e.Field != field {
				t.Errorf("%v, want it to be about %s", err, field)
			}
		}
		n.stop()
	})
}
