package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// killable is a store that a node is cut off from wholly when it is killed. Its leases stay until they run
// out.
type killable struct{ *mortal }

type mortalLeaser struct {
	store.Leaser
	m *mortal
}

var errKilled = errors.New("killed")

func (k killable) Leaser() store.Leaser { return mortalLeaser{k.Store.Leaser(), k.mortal} }

func (l mortalLeaser) Claim(ctx context.Context, node string, parts []int,
	ttl time.Duration) ([]store.Term, error) {
	if l.m.isDead() {
		return nil, errKilled
	}
	return l.Leaser.Claim(ctx, node, parts, ttl)
}

func (l mortalLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.m.isDead() {
		return nil, errKilled
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (l mortalLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if l.m.isDead() {
		return errKilled
	}
	return l.Leaser.Release(ctx, node, held)
}

func (l mortalLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if l.m.isDead() {
		return nil, errKilled
	}
	return l.Leaser.Owners(ctx)
}

// startKillable starts a node and returns a function that kills it.
func startKillable(t *testing.T, disk *memory.Store) (n *node, kill func()) {
	t.Helper()
	m := &mortal{Store: disk, left: 1 << 30}
	n = startWith(t, engine.Config{Store: killable{m}})
	return n, func() {
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
		if err := n.hub.Close(); err != nil {
			t.Error(err)
		}
		_ = n.Stop(context.Background()) // it is cut off
	}
}

// TestWhatANodeHadHandedOutRunsAgain: after the node was killed; meanwhile the run is found by its id.
func TestWhatANodeHadHandedOutRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, disk := context.Background(), memory.New(memory.Options{})
		n, kill := startKillable(t, disk)
		c := n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
		if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Schedule: "@every 10s", Repeats: 2,
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		kill()
		had := c.got()
		time.Sleep(time.Minute)

		n, kill = startKillable(t, disk)
		run, err := n.GetRun(ctx, "default", had[0].ID)
		if err != nil || run.Status != carillon.RunScheduled || run.InDoubt != 1 {
			t.Errorf("the run in doubt is %+v, %v", run, err)
		}
		kill() // before anybody has it

		n = start(t, disk)
		c = n.consume("q", 1, success)
		time.Sleep(time.Minute)
		got := c.got()
		if len(got) != 2 || got[0].ID != had[0].ID || got[0].Token != had[0].Token || got[0].Attempt != 1 {
			t.Errorf("%+v were handed out after %+v", got, had)
		}
		run, err = n.GetRun(ctx, "default", had[0].ID)
		if err != nil || run.Status != carillon.RunSucceeded || run.Attempt != 1 || run.InDoubt != 1 {
			t.Errorf("it ended as %+v, %v", run, err)
		}
		n.stop()
	})
}

// TestALossOfAnEndedTermTakesNothingBack: from a consumer to which this term has handed the attempt out. The
// token is the same, the consumer is another.
func TestALossOfAnEndedTermTakesNothingBack(t *testing.T) {
	for name, said := range map[string]func(token string) message.RelayReports{
		"it never left": func(token string) message.RelayReports {
			return message.RelayReports{Undelivered: []string{token}}
		},
		"its worker has left": func(token string) message.RelayReports {
			return message.RelayReports{Lost: []string{token}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, disk := context.Background(), memory.New(memory.Options{})
				n, kill := startKillable(t, disk)
				n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
				j := carillon.Job{Namespace: "default", Name: "a", Schedule: "@every 10s",
					Target: carillon.WorkerQueue("q")}
				if _, err := n.PutJob(ctx, j); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10*time.Second + 100*time.Millisecond)
				kill()
				n = start(t, disk)
				c := n.consume("q", 5, func(carillon.Run) *carillon.Result { return nil })
				time.Sleep(time.Second)
				had := c.got()
				if len(had) != 1 || had[0].InDoubt != 1 {
					t.Fatalf("handed out again: %+v", had)
				}
				number := store.PartitionOf(carillon.Key{Namespace: j.Namespace, Name: j.Name}, disk.Meta().Partitions)
				if _, err := message.Send(ctx, n, number, said(had[0].Token)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if again := c.got(); len(again) != 1 {
					t.Errorf("handed out once more: %+v", again)
				}
				if err := n.CompleteRun(ctx, "default",
					carillon.Result{Token: had[0].Token, Outcome: carillon.OutcomeSuccess}); err != nil {
					t.Errorf("its result: %v", err)
				}
				n.stop()
			})
		})
	}
}

// TestNoResultIsStaleByAChangeThatIsLost: although memory has the change; the next owner accepts the same
// token.
func TestNoResultIsStaleByAChangeThatIsLost(t *testing.T) {
	for name, change := range map[string]func(n *node, j carillon.Job) error{
		"an edit": func(n *node, j carillon.Job) error {
			j.Schedule = "@every 7s"
			_, err := n.PutJob(context.Background(), j)
			return err
		},
		"a delete": func(n *node, j carillon.Job) error {
			_, err := n.DeleteJob(context.Background(), carillon.Key{Namespace: "default", Name: j.Name})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, disk := context.Background(), memory.New(memory.Options{})
				m := &mortal{Store: disk, left: 1 << 30, fails: time.Second}
				n := startWith(t, engine.Config{Store: killable{m}})
				c := n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
				j := carillon.Job{Name: "a", Schedule: "@every 10s", Target: carillon.WorkerQueue("q")}
				if _, err := n.PutJob(ctx, j); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10*time.Second + 100*time.Millisecond)
				result := carillon.Result{Token: c.got()[0].Token, Outcome: carillon.OutcomeSuccess}
				m.mu.Lock()
				m.dead = true
				m.mu.Unlock()
				changed, answered := make(chan error, 1), make(chan error, 1)
				go func() { changed <- change(n, j) }()
				time.Sleep(100 * time.Millisecond)
				go func() { answered <- n.CompleteRun(ctx, "default", result) }()
				v := succeed(n.Engine, []delivery.Delivery{{Run: &carillon.Run{Token: result.Token}}})
				time.Sleep(5 * time.Second)
				_ = n.hub.Close()
				_ = n.Stop(ctx) // it is cut off
				if err := <-changed; err == nil {
					t.Error("the change was acknowledged")
				}
				if err := <-answered; carillon.KindOf(err) != carillon.Unavailable || v.stale != 0 {
					t.Errorf("the result was refused: %v, and %d times on the stream", err, v.stale)
				}
				n = start(t, disk)
				if err := n.CompleteRun(ctx, "default", result); err != nil {
					t.Errorf("and then: %v", err)
				}
				n.stop()
			})
		})
	}
}

// TestAResultReachesTheNextTerm: although it comes before the new owner has read anything.
func TestAResultReachesTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, disk := context.Background(), memory.New(memory.Options{})
		n, kill := startKillable(t, disk)
		c := n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
		if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Schedule: "@every 10s",
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		kill()
		n = start(t, disk)
		had := c.got()[0]
		err := n.CompleteRun(ctx, "default", carillon.Result{Token: had.Token, Outcome: carillon.OutcomeSuccess})
		if err != nil {
			t.Errorf("the result of what had been handed out: %v", err)
		}
		c = n.consume("q", 1, success)
		time.Sleep(time.Second)
		if got := c.got(); len(got) != 0 {
			t.Errorf("it was handed out again: %+v", got)
		}
		n.stop()
	})
}

// TestWhatCameAfterTheLeaseWasMissed: the owner that was killed cannot have handed it out.
func TestWhatCameAfterTheLeaseWasMissed(t *testing.T) {
	for after, want := range map[time.Duration]int{time.Minute: 1, 10 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			disk := memory.New(memory.Options{})
			n, kill := startKillable(t, disk)
			j := carillon.Job{Name: "a", Schedule: "@every 60s", Target: carillon.WorkerQueue("q")}
			if _, err := n.PutJob(context.Background(), j); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - after)
			kill()
			time.Sleep(time.Hour)
			n = start(t, disk)
			c := n.consume("q", 1, success)
			time.Sleep(time.Second)
			if got := c.got(); len(got) != want {
				t.Errorf("killed %v before its time %d runs began: %+v", after, len(got), got)
			}
			n.stop()
		})
	}
}

// TestATermThatEndsInOrderLeavesNoDoubt: what became due meanwhile was missed.
func TestATermThatEndsInOrderLeavesNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memory.New(memory.Options{})
		n := start(t, disk)
		for _, name := range []string{"a", "b", "c"} {
			j := carillon.Job{Name: name, Schedule: "@every 10s", Target: carillon.WorkerQueue("q")}
			if _, err := n.PutJob(context.Background(), j); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		n.stop()
		time.Sleep(time.Minute)
		n = start(t, disk)
		c := n.consume("q", 3, success)
		time.Sleep(time.Second)
		got := c.got()
		if len(got) != 3 || slices.ContainsFunc(got, func(r carillon.Run) bool { return r.InDoubt != 0 }) {
			t.Errorf("%d runs began: %+v", len(got), got)
		}
		n.stop()
	})
}

// unrenewed is a store whose leases cannot be renewed while it is stuck.
type unrenewed struct {
	store.Store
	stuck atomic.Bool
}

type unrenewedLeaser struct {
	store.Leaser
	s *unrenewed
}

func (s *unrenewed) Leaser() store.Leaser { return unrenewedLeaser{s.Store.Leaser(), s} }

func (l unrenewedLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if l.s.stuck.Load() {
		return nil, errKilled
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// TestAClockThatLeapsWaitsForTheLease: so that the store knows until when something may have been handed out.
func TestAClockThatLeapsWaitsForTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		s := &unrenewed{Store: memory.New(memory.Options{Partitions: 1})}
		n := startWith(t, engine.Config{Store: s,
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		c := n.consume("q", 1, success)
		j := carillon.Job{Name: "a", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(context.Background(), j); err != nil {
			t.Fatal(err)
		}
		s.stuck.Store(true)
		ahead.Store(int64(2 * time.Hour))
		time.Sleep(3 * time.Second)
		if got := c.got(); len(got) != 0 {
			t.Errorf("it does not wait: %+v", got)
		}
		s.stuck.Store(false)
		time.Sleep(3 * time.Second)
		if got := c.got(); len(got) != 1 {
			t.Errorf("%d runs began when the lease had been renewed", len(got))
		}
		n.stop()
	})
}

// TestAGiveBackIsOfWhoHandedItOut: an earlier owner reports that it never sent an attempt, after the next
// owner, for which the attempt was in doubt, has handed it out under the same token. That delivery was sent,
// and the run is not handed out to another consumer as well.
func TestAGiveBackIsOfWhoHandedItOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, disk := context.Background(), memory.New(memory.Options{Partitions: 1})
		n, kill := startKillable(t, disk)
		c := n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
		if _, err := n.PutJob(ctx, carillon.Job{Name: "a", Due: carillon.In(10 * time.Second),
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		kill()
		had := c.got()

		n = start(t, disk)
		c = n.consume("q", 2, func(carillon.Run) *carillon.Result { return nil })
		time.Sleep(20 * time.Second)
		if got := c.got(); len(had) != 1 || len(got) != 1 || got[0].Token != had[0].Token {
			t.Fatalf("%+v were handed out after %+v", got, had)
		}
		if _, err := message.Send(ctx, n, 0,
			message.RelayReports{Undelivered: []string{had[0].Token}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := c.got(); len(got) != 1 {
			t.Errorf("handed out: %+v", got)
		}
		n.stop()
	})
}
