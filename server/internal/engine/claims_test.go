package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// line is a store as one node reaches it: each of its calls goes as the test says.
type line struct {
	store.Store
	fired atomic.Int64 // attempts that were handed out

	mu sync.Mutex
	on func(what string, do func() error) error
}

func (l *line) set(on func(what string, do func() error) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

func (l *line) do(what string, do func() error) error {
	l.mu.Lock()
	on := l.on
	l.mu.Unlock()
	if on == nil {
		return do()
	}
	return on(what, do)
}

// failing makes calls of some kinds fail, before or after they were carried out.
func failing(done bool, kinds ...string) func(what string, do func() error) error {
	return func(what string, do func() error) error {
		for _, kind := range kinds {
			if what != kind {
				continue
			}
			if done {
				return errors.Join(do(), errors.New("the answer was lost"))
			}
			return errors.New("out of reach")
		}
		return do()
	}
}

type lineLeaser struct {
	store.Leaser
	l *line
}

func (l *line) Leaser() store.Leaser { return lineLeaser{l.Store.Leaser(), l} }

func (l lineLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) (terms []store.Term, err error) {
	err = l.l.do("claim", func() (err error) { terms, err = l.Leaser.Claim(ctx, node, ps, ttl); return err })
	return terms, err
}

func (l lineLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) (lost []store.Holding, err error) {
	err = l.l.do("renew", func() (err error) { lost, err = l.Leaser.Renew(ctx, node, held, ttl); return err })
	return lost, err
}

func (l lineLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	return l.l.do("release", func() error { return l.Leaser.Release(ctx, node, held) })
}

type lineShard struct {
	store.Shard
	l *line
}

func (l *line) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := l.Store.Shard(p, term)
	return lineShard{s, l}, err
}

func (s lineShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.l.do("apply", func() error { return s.Shard.Apply(ctx, b) })
}

func (s lineShard) Read(ctx context.Context, refs []store.Ref) (rs []store.Record, err error) {
	err = s.l.do("read "+refs[0].Name, func() (err error) { rs, err = s.Shard.Read(ctx, refs); return err })
	return rs, err
}

func (s lineShard) Staged(ctx context.Context, q store.StagedQuery) (rs []store.Record, err error) {
	err = s.l.do("staged", func() (err error) { rs, err = s.Shard.Staged(ctx, q); return err })
	return rs, err
}

func (s lineShard) MetaRecords(ctx context.Context, q store.MetaQuery) (rs []store.MetaRecord, err error) {
	what := "small"
	if q.Kind == store.KindIntent {
		what = "intents"
	}
	err = s.l.do(what, func() (err error) { rs, err = s.Shard.MetaRecords(ctx, q); return err })
	return rs, err
}

// grouped is a line to a store that makes groups durable.
type grouped struct{ *line }

func (g grouped) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := under(writes, func(s lineShard) store.Shard { return s.Shard })
	return g.do("apply", func() error { return g.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

// startLines returns a fleet of two nodes that reach one store over separate lines. The first owns
// everything.
func startLines(t testing.TB) (f *fleet, lines []*line) {
	t.Helper()
	s := memory.New(memory.Options{Partitions: 2})
	f = startFleet(t, s, 2, func(_ int, c *engine.Config) {
		l := &line{Store: s}
		lines = append(lines, l)
		c.Store = l
		c.Events.Fired = func(delivery.Fired) { l.fired.Add(1) }
	})
	f.deal(func(int) int { return 0 })
	f.settled()
	return f, lines
}

// movesWithin checks that the second node soon owns everything, without waiting until leases have run out.
func (f *fleet) movesWithin(most time.Duration) {
	f.t.Helper()
	began := time.Now()
	f.deal(func(int) int { return 1 })
	f.settled()
	if took := time.Since(began); took > most {
		f.t.Errorf("nobody owned the partitions for %v", took)
	}
	if n := len(f.nodes[1].Holdings()); n != len(f.all) {
		f.t.Errorf("the new owner has %d partitions", n)
	}
}

// TestATermLostForGood: it is released if the node is not to own the partition any more, so that no other
// node waits for its lease.
func TestATermLostForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		lines[0].set(failing(false, "apply"))
		for p := range f.all {
			if _, err := f.nodes[0].PutJob(context.Background(),
				carillon.Job{Name: f.at(p, 0), Target: carillon.WorkerQueue("q")}); err == nil {
				t.Fatal("it was put")
			}
		}
		time.Sleep(3 * time.Second) // it claims again, and cannot write
		f.movesWithin(800 * time.Millisecond)
		f.stop()
	})
}

// TestATermLostWhileItIsHandedOver: it is released as well.
func TestATermLostWhileItIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		f.nodes[0].consume("q", 10, func(carillon.Run) *carillon.Result { return nil })
		for p := range f.all {
			if _, err := f.nodes[0].PutJob(context.Background(),
				carillon.Job{Name: f.at(p, 0), Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		lines[0].set(failing(false, "apply"))
		f.movesWithin(800 * time.Millisecond)
		f.stop()
	})
}

// TestAClaimOfWhichNothingWasHeard: it is released if the node is not to own the partition any more.
func TestAClaimOfWhichNothingWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		f.deal(func(int) int { return 1 })
		f.settled()
		lines[0].set(failing(true, "claim"))
		f.deal(func(int) int { return 0 })
		time.Sleep(800 * time.Millisecond)
		f.movesWithin(800 * time.Millisecond)
		f.stop()
	})
}

// TestAReleaseThatFails: it is tried again.
func TestAReleaseThatFails(t *testing.T) {
	for _, done := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, lines := startLines(t)
			lines[0].set(failing(done, "release"))
			go func() {
				time.Sleep(time.Second)
				lines[0].set(nil)
			}()
			f.movesWithin(1800 * time.Millisecond)
			f.deal(func(int) int { return 0 }) // and does not release what is claimed again
			f.settled()
			time.Sleep(10 * time.Second)
			if n := len(f.nodes[0].Holdings()); n != len(f.all) || f.nodes[0].Ready() != nil {
				t.Errorf("it has %d partitions, ready: %v", n, f.nodes[0].Ready())
			}
			f.stop()
		})
	}
}

// TestACallThatIsRefused: while the outcomes of writes are unknown. The call was certainly not carried out.
func TestACallThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		lines[0].set(func(what string, do func() error) error {
			if what == "apply" {
				return fmt.Errorf("%w: lost", store.ErrUnknown)
			}
			return do()
		})
		for i, unknown := range []bool{true, false} {
			_, err := f.nodes[0].PutJob(context.Background(),
				carillon.Job{Name: f.at(0, i), Target: carillon.WorkerQueue("q")})
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable ||
				e.Unknown != unknown {
				t.Errorf("put %d: %+v", i, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		lines[0].set(nil)
		f.settled()
		f.stop()
	})
}

// TestLoadsSideBySide: partitions of a distant store are loaded concurrently, but not all at once.
func TestLoadsSideBySide(t *testing.T) {
	for _, standby := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &line{Store: memory.New(memory.Options{Partitions: 32})}
			var mu sync.Mutex
			now, most := 0, 0
			l.set(func(what string, do func() error) error {
				if what != "small" {
					return do()
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				now--
				mu.Unlock()
				return do()
			})
			began := time.Now()
			n := startWith(t, engine.Config{Store: l, Standby: standby, Lanes: 2})
			if standby {
				all := make([]int, 32)
				for p := range all {
					all[p] = p
				}
				n.Assign(all)
			}
			for n.Ready() != nil {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > 2*time.Second || most != 8 {
				t.Errorf("it took %v, with %d at once", took, most)
			}
			n.stop()
		})
	}
}

// TestAClockThatIsSetBack: it does not stop what is done every second.
func TestAClockThatIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		clock := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 1}), Now: clock})
		put := func(name string) {
			t.Helper()
			if _, err := n.PutJob(context.Background(),
				carillon.Job{Name: name, Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		back.Store(int64(time.Hour))
		put("a")
		time.Sleep(3500 * time.Millisecond) // it is parked within 2 s, and counted a second later
		synctest.Wait()
		if got := n.Backlog()[workerQueue("q")].Len(); got != 1 {
			t.Errorf("%d runs are seen to wait", got)
		}
		n.stop()
	})
}

// TestADrainDoesNotWaitForATerm: that a node of a cluster cannot get because another node owns the partition
// by now. No attempt is in force here, and no report waits to be heard.
func TestADrainDoesNotWaitForATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, lines := startLines(t)
		lines[0].set(failing(false, "apply", "claim"))
		for p := range f.all {
			if _, err := f.nodes[0].PutJob(context.Background(),
				carillon.Job{Name: f.at(p, 0), Target: carillon.WorkerQueue("q")}); err == nil {
				t.Fatal("it was put")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := f.nodes[0].Drain(ctx); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		f.stop()
	})
}
