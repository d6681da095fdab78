package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// mute is a store that renews no leases while it is told not to.
type mute struct {
	*faulty
	silent atomic.Bool
}

func (m *mute) Leaser() store.Leaser { return muteLeaser{m.faulty.Leaser(), m} }

type muteLeaser struct {
	store.Leaser
	m *mute
}

func (l muteLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.m.silent.Load() {
		return nil, errors.New("the store does not answer")
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// hold makes the next write of a store wait for its answer: it has been applied by then, or never will be.
// Later writes pass.
func hold(f *faulty, applied bool) (arrived <-chan struct{}, answer chan<- error) {
	reached, end := make(chan struct{}), make(chan error)
	f.fail(func(apply func() error) error {
		f.fail(nil)
		var err error
		if applied {
			err = apply()
		}
		close(reached)
		return errors.Join(err, <-end)
	})
	return reached, end
}

// putLater puts jobs in one call, on a goroutine of its own.
func putLater(n *node, names ...string) <-chan error {
	done := make(chan error, 1)
	jobs := make([]carillon.Job, len(names))
	for i, name := range names {
		jobs[i] = carillon.Job{Name: name, Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
	}
	go func() {
		_, err := n.PutJobs(context.Background(), jobs)
		done <- err
	}()
	return done
}

// takeAway makes another node claim all partitions.
func takeAway(t *testing.T, l store.Leaser) {
	t.Helper()
	ctx := context.Background()
	owners, err := l.Owners(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if err := l.Release(ctx, o.Node, []store.Holding{{Partition: o.Partition, Term: o.Term}}); err != nil {
			t.Fatal(err)
		}
		if terms, err := l.Claim(ctx, "another", []int{o.Partition}, time.Hour); err != nil || terms[0].IsZero() {
			t.Fatalf("claim of the other node: %v, %v", terms, err)
		}
	}
}

// lostLease is the lease of the nodes whose terms end.
const lostLease = 3 * time.Second

// endings are the ways in which a term ends while a write is in flight.
var endings = map[string]func(t *testing.T, m *mute){
	"with the write": func(*testing.T, *mute) {},
	"as another node claims": func(t *testing.T, m *mute) {
		takeAway(t, m.faulty.Leaser())
		time.Sleep(lostLease / 2)
	},
	"as the lease runs out": func(_ *testing.T, m *mute) {
		m.silent.Store(true)
		time.Sleep(lostLease)
		m.silent.Store(false)
	},
	"as the lease is not ours": func(t *testing.T, m *mute) {
		m.silent.Store(true)
		takeAway(t, m.faulty.Leaser())
		time.Sleep(lostLease)
	},
}

// TestEachCallerHearsWhatIsKnown: however a term ends while a write is in flight, a caller in that write gets
// its outcome from the store, and a caller behind it is told that nothing was done.
func TestEachCallerHearsWhatIsKnown(t *testing.T) {
	for outcome, answer := range map[string]error{
		"applied":     nil,
		"not applied": errors.New("no space left on device"),
		"fenced":      store.ErrFenced,
		"unknown":     fmt.Errorf("%w: the connection broke", store.ErrUnknown),
	} {
		for ending, end := range endings {
			for kind, jobs := range map[string][]string{"one job": {"a"}, "a group": {"a", "b", "c", "d"}} {
				t.Run(kind+" "+outcome+" "+ending, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := &mute{faulty: &faulty{Store: memory.New(memory.Options{Partitions: 4})}}
						n := startWith(t, engine.Config{Store: m, LeaseTTL: lostLease})
						arrived, told := hold(m.faulty, answer == nil)
						inside := putLater(n, jobs...)
						<-arrived
						behind := putLater(n, "a")
						synctest.Wait()
						end(t, m)
						told <- answer
						wantHeard(t, "inside", <-inside, answer)
						var left error
						if answer != nil || ending != "with the write" {
							left = errors.New("it has not left")
						}
						wantHeard(t, "behind", <-behind, left)
						n.stop()
					})
				})
			}
		}
	}
}

// wantHeard checks what a caller is told about a write that ended like this.
func wantHeard(t *testing.T, who string, heard, ended error) {
	t.Helper()
	if ended == nil {
		if heard != nil {
			t.Errorf("%s: %v, want success", who, heard)
		}
		return
	}
	e, ok := errors.AsType[*carillon.Error](heard)
	switch {
	case !ok || e.Kind != carillon.Unavailable:
		t.Errorf("%s: %v, want unavailable", who, heard)
	case e.Unknown != (store.OutcomeOf(ended) == store.Unknown):
		t.Errorf("%s: unknown is %v after %v", who, e.Unknown, ended)
	case store.OutcomeOf(ended) == store.Fenced && !errors.Is(heard, message.ErrNotOwner):
		t.Errorf("%s: %v does not say that another owner may be asked", who, heard)
	}
}
