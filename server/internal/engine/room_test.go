package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// roomless is a store that says that it has no room.
type roomless struct {
	*memory.Store
	full bool
}

func (r *roomless) Room() error {
	if r.full {
		return fmt.Errorf("%w: 91 of 100 MiB", store.ErrFull)
	}
	return nil
}

// TestWithoutRoomNothingIsPutAndAllElseGoesOn: puts of every kind are refused with the reason; what is there is
// patched, fires and goes, and then there is room again.
func TestWithoutRoomNothingIsPutAndAllElseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := &roomless{Store: memory.New(memory.Options{Partitions: 4})}
		n := start(t, s)
		defer n.stop()
		job := carillon.Job{Name: "there", Due: carillon.In(time.Minute), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		s.full = true
		refused := func(what string, err error) {
			t.Helper()
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.Unavailable || e.Unknown || !errors.Is(err, store.ErrFull) ||
				!strings.Contains(e.Message, "91 of 100 MiB") {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err := n.PutJob(ctx, job)
		refused("a put", err)
		other, third := job, job
		other.Name, third.Name = "other", "third"
		_, err = n.PutJobs(ctx, []carillon.Job{other, third})
		refused("a batch", err)
		key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "there"}
		if _, err := n.PatchJob(ctx, key, carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}}); err != nil {
			t.Errorf("a patch: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if got, err := n.GetJob(ctx, key); err != nil || got.Status.Phase == carillon.PhaseScheduled {
			t.Errorf("the job has not become due: %+v, %v", got.Status, err)
		}
		if _, err := n.DeleteJob(ctx, key); err != nil {
			t.Errorf("a delete: %v", err)
		}
		s.full = false
		if _, err := n.PutJob(ctx, other); err != nil {
			t.Errorf("there is room again: %v", err)
		}
	})
}
