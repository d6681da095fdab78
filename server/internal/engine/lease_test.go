package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// landlord is a store whose leases are as the test says.
type landlord struct {
	store.Store
	mu     sync.Mutex
	slow   time.Duration // how long renewals take
	renew  error         // the error of the next renewals
	taken  bool          // another node has claimed everything
	claims int
}

// leases is the landlord's leaser.
type leases struct {
	store.Leaser
	*landlord
}

func (l *landlord) Leaser() store.Leaser { return leases{l.Store.Leaser(), l} }

func (l leases) Claim(ctx context.Context, node string, ps []int, ttl time.Duration) ([]store.Term, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renew != nil {
		return nil, l.renew
	}
	if l.taken {
		return make([]store.Term, len(ps)), nil
	}
	l.claims++
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

func (l leases) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(held) == 0:
		return nil, nil
	case l.renew != nil:
		return nil, l.renew
	case l.taken:
		return held, nil
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (l *landlord) set(renew error, taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renew, l.taken = renew, taken
}

func newLandlord() *landlord {
	return &landlord{Store: memory.New(memory.Options{Partitions: 2})}
}

// TestATermThatIsOver: a node that learns from a renewal that its terms are over does nothing under them.
func TestATermThatIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		renew error
		taken bool
		after time.Duration // when it must have stopped
	}{
		"lost":    {nil, true, 5 * time.Second},
		"expired": {errors.New("the store is out of reach"), false, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				l := newLandlord()
				n := start(t, l)
				consumer := n.consume("q", 10, success)
				l.set(c.renew, c.taken)
				time.Sleep(c.after)
				synctest.Wait()
				if err := n.Ready(); err == nil {
					t.Error("it is ready")
				}
				if _, err := n.PutJob(ctx,
					carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); !errors.Is(err, carillon.Unavailable) {
					t.Errorf("acknowledged under a term that is over: %v", err)
				}
				l.set(nil, false)
				time.Sleep(time.Second)
				if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
					t.Errorf("it does not come back: %v", err)
				}
				synctest.Wait()
				if got := len(consumer.got()); got != 1 {
					t.Errorf("%d runs", got)
				}
				n.stop()
			})
		})
	}
}

// TestAWriteOnItsWayWhenTheLeaseRunsOut: it may become durable after all, so its caller is told that the
// outcome is unknown.
func TestAWriteOnItsWayWhenTheLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 2})}
		l := &landlord{Store: f}
		n := start(t, l)
		f.fail(func(apply func() error) error { time.Sleep(time.Minute); return apply() })
		l.set(errors.New("the store is out of reach"), false)
		_, err := n.PutJob(context.Background(),
			carillon.Job{Name: "a", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || !e.Unknown {
			t.Errorf("got %v", err)
		}
		f.fail(nil)
		l.set(nil, false)
		time.Sleep(2 * time.Minute)
		if _, err := n.GetJob(context.Background(),
			carillon.Key{Namespace: "default", Name: "a"}); err != nil && !errors.Is(err, carillon.NotFound) {
			t.Error(err)
		}
		n.stop()
	})
}

// TestAFewLostRenewals: they are no reason to stop.
func TestAFewLostRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLandlord()
		n := start(t, l)
		claims := l.claims
		l.set(errors.New("no"), false)
		time.Sleep(11 * time.Second)
		l.set(nil, false)
		time.Sleep(time.Minute)
		if l.claims != claims {
			t.Errorf("claimed again %d times", l.claims-claims)
		}
		n.stop()
	})
}

// TestStopEndsWithItsContext: although the store does not answer.
func TestStopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 2})}
		n := start(t, f)
		release := make(chan struct{})
		f.fail(func(apply func() error) error { <-release; return apply() })
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		go func() {
			// nobody will know
			_, _ = n.PutJob(ctx, carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")})
		}()
		synctest.Wait()
		if err := n.hub.Close(); err != nil {
			t.Fatal(err)
		}
		err := n.Stop(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "partition ") {
			t.Errorf("got %v", err)
		}
		close(release)
		if err := n.Stop(context.Background()); err != nil {
			t.Errorf("once the store answers: %v", err)
		}
	})
}

// TestALeaseThatRunsOutWithinARound: during a read of the store. What was read is not handed out any more.
func TestALeaseThatRunsOutWithinARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		if _, err := f.nodes[0].PutJob(context.Background(),
			carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it is parked
		lines[0].set(func(what string, do func() error) error {
			switch what {
			case "staged":
				err := do()
				time.Sleep(10 * time.Second)
				return err
			case "renew", "claim":
				return errors.New("out of reach")
			}
			return do()
		})
		f.nodes[0].consume("q", 1, success)
		synctest.Wait()
		f.nodes[1].Assign(f.all)
		time.Sleep(5 * time.Second)
		f.nodes[1].consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if late, now := lines[0].fired.Load(), lines[1].fired.Load(); late != 0 || now != 1 {
			t.Errorf("%d runs were handed out after the lease had run out, and %d by the new owner", late, now)
		}
		f.stop()
	})
}

// TestASlowStoreRenewsLeases: with critical runs that leave without it the node finds out soon that a renewal
// is not answered, and does not give it up.
func TestASlowStoreRenewsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := newLandlord(), &heard{}
		n := startWith(t, engine.Config{Store: l, LeaseTTL: 30 * time.Second, FireCritical: true, Events: h.events()})
		consumer := n.consume("q", 10, success)
		l.mu.Lock()
		l.slow = 3 * time.Second
		claims := l.claims
		l.mu.Unlock()
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Due: carillon.In(time.Minute),
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		l.mu.Lock()
		if l.claims != claims {
			t.Errorf("leases were not renewed, and the partitions claimed %d times again", l.claims-claims)
		}
		l.mu.Unlock()
		if got := len(consumer.got()); got != 1 {
			t.Errorf("%d runs left", got)
		}
		if got := h.all(); !strings.HasPrefix(got, "away, back") {
			t.Errorf("said: %q", got)
		}
		n.stop()
	})
}
