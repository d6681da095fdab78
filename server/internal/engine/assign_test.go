package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAStandbyOwnsNothing: until it is assigned something; it refuses at once.
func TestAStandbyOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, nil)
		n := f.nodes[0]
		began := time.Now()
		_, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown ||
			!errors.Is(err, message.ErrNotOwner) {
			t.Errorf("got %v", err)
		}
		if time.Since(began) > 0 || len(n.Holdings()) > 0 || n.Ready() != nil {
			t.Errorf("after %v: holds %v, ready %v", time.Since(began), n.Holdings(), n.Ready())
		}
		n.Assign(f.all)
		if n.Ready() == nil {
			t.Error("ready before it owns anything")
		}
		f.settled()
		if _, err := n.PutJob(context.Background(),
			carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Error(err)
		}
		f.stop()
	})
}

// TestAStoppedNodeSaysThatItOwnsNothing: so that another node carries out a call that still reaches it.
func TestAStoppedNodeSaysThatItOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, nil)
		n := f.nodes[0]
		n.Assign(f.all)
		f.settled()
		f.stop()
		job := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}
		_, alone := n.PutJob(context.Background(), job)
		_, many := n.PutJobs(context.Background(),
			[]carillon.Job{job, {Name: "b", Target: job.Target}, {Name: "c", Target: job.Target}})
		for _, err := range []error{alone, many} {
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable ||
				e.Unknown || !errors.Is(err, message.ErrNotOwner) {
				t.Errorf("got %v", err)
			}
		}
	})
}
