package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestABatchAndADeleteAcrossNodes: a batch and a delete reach jobs of all nodes, and only the first job's
// owner coordinates.
func TestABatchAndADeleteAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 2, nil)
		f.deal(byParity)
		f.settled()
		ctx := context.Background()
		jobs := f.across(5)
		if _, err := f.nodes[1].PutJobs(ctx, jobs); !errors.Is(err, message.ErrNotOwner) || f.there(jobs) > 0 {
			t.Errorf("by the wrong node: %v, %d jobs are there", err, f.there(jobs))
		}
		puts, err := f.nodes[0].PutJobs(ctx, jobs)
		if err != nil || len(puts) != len(jobs) || f.there(jobs) != len(jobs) {
			t.Fatalf("%d puts, %d jobs, %v", len(puts), f.there(jobs), err)
		}
		for i, p := range puts {
			if !p.Created || p.Job.Name != jobs[i].Name {
				t.Errorf("put %d: %+v", i, p)
			}
		}
		time.Sleep(5 * time.Minute)
		if left := f.left(store.KindApplied) + f.left(store.KindIntent); left != 0 {
			t.Errorf("%d marks and intents are left", left)
		}
		if n, err := f.nodes[1].DeleteJobs(ctx, "default", "j"); n != len(jobs) || err != nil ||
			f.there(jobs) != 0 {
			t.Errorf("deleted %d, %v", n, err)
		}
		f.stop()
	})
}

// TestACoordinatorThatPauses: in the middle of a batch, and is deposed. The next owner stores the jobs, and
// what the old one asked for before the pause, and arrives late, changes nothing.
func TestACoordinatorThatPauses(t *testing.T) {
	for _, late := range []time.Duration{2 * time.Second, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 3, nil)
			f.deal(func(p int) int { return min(p, 2) })
			f.settled()
			ctx := context.Background()
			jobs := f.across(3)
			var mu sync.Mutex
			var kept []func() // shares that are on their way
			held := true
			f.intercept(func(p int, what message.Message) error {
				m, share := what.(message.ApplyShare)
				mu.Lock()
				defer mu.Unlock()
				if !share || len(m.Share.Reqs) == 0 || !held || p != 1 { // without jobs it asks for the term
					return nil
				}
				arrive, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				kept = append(kept, func() {
					defer cancel()
					if _, err := message.Send(arrive, f.nodes[1], p, m); err != nil &&
						carillon.KindOf(err) != carillon.DeadlineExceeded {
						t.Error(err)
					}
				})
				err := carillon.Errorf(carillon.Unavailable, "", "the connection is lost")
				err.Unknown = true
				return err
			})
			ended := make(chan error, 1)
			go func() {
				_, err := f.nodes[0].PutJobs(ctx, jobs)
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			held = false // nothing is lost of the next coordinator's
			mu.Unlock()
			f.deal(func(p int) int { return max(1, min(p, 2)) }) // deposed, between two tries
			f.settled()
			err := <-ended
			if e, ok := errors.AsType[*carillon.Error](err); err != nil &&
				(!ok || !e.Unknown || errors.Is(err, message.ErrNotOwner)) {
				t.Errorf("the caller is told %v", err)
			}
			time.Sleep(time.Second)
			if n := f.there(jobs); n != len(jobs) {
				t.Errorf("%d of %d jobs are there", n, len(jobs))
			}
			if n, err := f.nodes[1].DeleteJobs(ctx, "default", "j"); n != len(jobs) || err != nil {
				t.Errorf("deleted %d, %v", n, err)
			}
			time.Sleep(late - 2*time.Second)
			if len(kept) == 0 {
				t.Error("no share was late")
			}
			for _, arrive := range kept {
				arrive()
			}
			if n := f.there(jobs); n != 0 {
				t.Errorf("%d jobs have come back", n)
			}
			f.stop()
		})
	}
}
