package engine_test

import (
	"context"
	"errors"
	"strings"
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

// lapsing starts a node whose only attempt is durable and has just lost its lease of 3 s. The write of that
// is in flight, and fails when fail is called.
func lapsing(t *testing.T) (n *node, c *consumer, r carillon.Run, fail func()) {
	t.Helper()
	f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
	n = start(t, f)
	c = n.consume("q", 1, silent)
	j := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"), Lease: 3 * time.Second}
	if _, err := n.PutJob(context.Background(), j); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	released := make(chan struct{})
	f.fail(func(func() error) error {
		<-released
		return errors.New("disk gone")
	})
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
	if len(c.got()) != 1 {
		t.Fatalf("%d attempts", len(c.got()))
	}
	return n, c, c.got()[0], func() {
		f.fail(nil)
		close(released)
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
}

// counts is how often a consumer was told that a result is durable, and that it is stale.
func (c *consumer) counts() (acks, stale int) {
	h := c.heard()
	return h.acks, h.stale
}

// TestARefusalWaitsUntilItIsDurable: that the attempt is over. Otherwise the next owner might find it in
// force.
func TestARefusalWaitsUntilItIsDurable(t *testing.T) {
	for name, say := range map[string]func(r carillon.Run) (req carillon.WorkRequest){
		"result": func(r carillon.Run) (req carillon.WorkRequest) {
			req.Results = []carillon.Result{done(r)}
			return req
		},
		"beat, then result": func(r carillon.Run) (req carillon.WorkRequest) {
			req.Heartbeats = []carillon.Heartbeat{{Token: r.Token, RunID: r.ID}}
			return req
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c, r, fail := lapsing(t)
				if err := c.Send(context.Background(), say(r)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if acks, stale := c.counts(); acks != 0 || stale != 0 {
					t.Errorf("before anything is durable: %d accepted, %d stale", acks, stale)
				}
				fail()
				if err := c.Send(context.Background(),
					carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if acks, stale := c.counts(); acks == 0 || stale != 0 {
					t.Errorf("in the next term: %d accepted, %d stale", acks, stale)
				}
				run, err := n.GetRun(context.Background(), "default", r.ID)
				if err != nil || run.Status != carillon.RunSucceeded || run.Attempt != 1 {
					t.Errorf("it ended as %+v, %v", run, err)
				}
				n.stop()
			})
		})
	}
}

// TestRelayedReportsAreRefusedDurably: by the owner of the run, too.
func TestRelayedReportsAreRefusedDurably(t *testing.T) {
	for name, say := range map[string]func(n *node, r carillon.Run) error{
		"a result of another node": func(n *node, r carillon.Run) error {
			_, err := message.Send(context.Background(), n, 0,
				message.RelayReports{Reports: []delivery.Report{{Result: done(r)}}})
			return err
		},
		"a beat of another node": func(n *node, r carillon.Run) error {
			_, err := message.Send(context.Background(), n, 0,
				message.RelayReports{Heartbeats: []carillon.Heartbeat{{Token: r.Token}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _, r, fail := lapsing(t)
				answered := make(chan error, 1)
				go func() { answered <- say(n, r) }()
				synctest.Wait()
				early := len(answered) > 0
				fail()
				err := <-answered
				if early || carillon.KindOf(err) != carillon.Unavailable {
					t.Errorf("the write failed, and the answer, before that: %v, was %v", early, err)
				}
				n.stop()
			})
		})
	}
}

// TestReportsBesideAResult: the result is reported a second time. Its outcome is the answer to all of them,
// even if they are relayed to another node in other parts. Their run has ended, but nobody is told that they
// are stale.
func TestReportsBesideAResult(t *testing.T) {
	large := strings.Repeat("x", 1<<18)
	for name, say := range map[string]func(e *engine.Engine, v *verdicts, token string){
		"a beat": func(e *engine.Engine, v *verdicts, token string) {
			e.Heartbeats([]carillon.Heartbeat{{Token: token}}, v)
			e.Reports([]delivery.Report{{From: v,
				Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}}})
		},
		"a beat beside a large one": func(e *engine.Engine, v *verdicts, token string) {
			e.Heartbeats([]carillon.Heartbeat{{Token: token}}, v)
			e.Reports([]delivery.Report{{From: v,
				Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess, Message: large}}})
		},
		"progress": func(e *engine.Engine, v *verdicts, token string) {
			e.Reports([]delivery.Report{
				{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeProgress}},
				{From: v, Result: carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}},
			})
		},
	} {
		for owner, where := range []string{"to the owner", "to another node"} {
			t.Run(name+", "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const runs = 20
					var held atomic.Pointer[chan struct{}]
					f, streams := startStreams(t, 2, func(c *engine.Config) {
						c.Turn = func(int) {
							if until := held.Load(); until != nil {
								<-*until
							}
						}
					})
					putDapr(t, f.nodes[0].Engine, runs)
					time.Sleep(3 * time.Second)
					ds := streams[0].take()
					f.moves(owner)
					e := f.nodes[0].Engine
					if v := succeed(e, ds); v.accepted != runs || v.stale != 0 {
						t.Fatalf("%d accepted, %d stale", v.accepted, v.stale)
					}
					v, until := &verdicts{}, make(chan struct{})
					held.Store(&until) // so that all come in one mail
					for _, d := range ds {
						say(e, v, d.Run.Token)
					}
					held.Store(nil)
					close(until)
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if v.accepted != runs || v.stale != 0 {
						t.Errorf("again: %d accepted, %d stale", v.accepted, v.stale)
					}
					for _, n := range f.nodes {
						stop(t, n.Engine)
					}
				})
			})
		}
	}
}

// TestAResultDuringARelayedHeartbeat: it is the answer to the heartbeat too, which the owner refuses,
// as the run has ended with that success.
func TestAResultDuringARelayedHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 1}), 2, nil)
		f.deal(func(int) int { return 1 })
		f.settled()
		owner, other := f.nodes[1], f.nodes[0]
		worker := owner.consume("q", 1, silent)
		owner.putOnce(time.Hour)
		run := worker.got()[0]
		success := carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}
		worker.say(t, carillon.WorkRequest{Results: []carillon.Result{success}})
		time.Sleep(time.Second)
		f.intercept(func(_ int, what message.Message) error {
			if _, ok := what.(message.RelayReports); ok {
				time.Sleep(time.Second)
			}
			return nil
		})
		v := &verdicts{}
		other.Heartbeats([]carillon.Heartbeat{{Token: run.Token, RunID: run.ID}}, v)
		time.Sleep(100 * time.Millisecond)
		other.Reports([]delivery.Report{{From: v, Result: success}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if v.accepted != 1 || v.stale != 0 {
			t.Errorf("the result was accepted %d times, and said to be stale %d times", v.accepted, v.stale)
		}
		f.stop()
	})
}

// blind is a store whose reads fail while the test says so.
type blind struct {
	store.Store
	fails atomic.Bool
}

type blindShard struct {
	store.Shard
	b *blind
}

func (b *blind) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := b.Store.Shard(p, term)
	return blindShard{s, b}, err
}

func (s blindShard) Live(ctx context.Context, id store.RunID) (store.Ref, bool, error) {
	if s.b.fails.Load() {
		return store.Ref{}, false, errBlind
	}
	return s.Shard.Live(ctx, id)
}

func (s blindShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if s.b.fails.Load() {
		return nil, errBlind
	}
	return s.Shard.Runs(ctx, q)
}

func (s blindShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	if s.b.fails.Load() {
		return nil, errBlind
	}
	return s.Shard.Due(ctx, q)
}

// TestAResultSurvivesAReadError: the result of an attempt of an earlier term comes while the store cannot be
// read. It must neither be called stale nor be lost.
func TestAResultSurvivesAReadError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blind{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, b)
		r := n.begun(n.consume("q", 1, silent), "a")
		n.stop()
		b.fails.Store(true)
		n = start(t, b)
		c := n.consume("q", 1, silent)
		if err := c.Send(context.Background(),
			carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		b.fails.Store(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		run, err := n.GetRun(context.Background(), "default", r.ID)
		if err != nil || run.Status != carillon.RunSucceeded || len(c.got()) != 0 {
			t.Fatalf("run %+v %v, delivered again %d times", run, err, len(c.got()))
		}
		n.stop()
		if <-c.done; c.heard().acks != 1 {
			t.Fatalf("%d acknowledgements", c.heard().acks)
		}
	})
}

// TestAResultSurvivesALostTerm: the batch that holds a result fails. The sender, which gets no answer, need
// not send it again.
func TestAResultSurvivesALostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 5, silent)
		r := n.begun(c, "a")
		f.fail(func(func() error) error { return errors.New("disk gone") })
		if err := c.Send(context.Background(),
			carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		run, err := n.GetRun(context.Background(), "default", r.ID)
		if err != nil || run.Status != carillon.RunSucceeded || len(c.got()) != 1 {
			t.Fatalf("run %+v %v, %d attempts", run, err, len(c.got()))
		}
		n.stop()
	})
}
