package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permit"
	memstore "github.com/carillonhq/carillon/server/store/memory"
)

// fakeHub is a dispatcher of one partition. Its consumers grant credits, and say nothing of what they get.
type fakeHub struct {
	Dispatcher
	t testing.TB

	mu      sync.Mutex
	owner   delivery.Owner
	credits map[delivery.Queue]int // by queue with a consumer
	waits   map[delivery.Queue]int // slots that the partition waits for
	taken   map[delivery.Queue]int // slots
	got     map[string]int         // attempts by job
	durable bool                   // some consumers take only durable attempts
}

// Offer is for [Dispatcher].
func (h *fakeHub) Offer(p delivery.Owner, lineup []delivery.Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owner = p
	asked := map[delivery.Queue]bool{}
	for i := range lineup {
		w := &lineup[i]
		if asked[w.Queue] || w.Now > atOnce {
			h.t.Errorf("asked for %d slots of %v; asked before: %v", w.Now, w.Queue, asked[w.Queue])
		}
		asked[w.Queue] = true
		credits, served := h.credits[w.Queue]
		w.Slots.Served, w.Slots.Durable = served, h.durable
		if h.waits[w.Queue] = 0; served {
			n := max(0, min(w.Now-w.Slots.N, credits))
			w.Slots.N += n
			h.waits[w.Queue] = w.Now - w.Slots.N
			h.credits[w.Queue] -= n
			h.taken[w.Queue] += n
		}
	}
}

// grant adds credits, and sends what the partition waits for.
func (h *fakeHub) grant(e *Engine, q delivery.Queue, n int) {
	h.mu.Lock()
	_, served := h.credits[q]
	sent := max(0, min(n, h.waits[q]))
	h.waits[q] -= sent
	h.credits[q] += n - sent
	h.taken[q] += sent
	owner := h.owner
	h.mu.Unlock()
	if !served {
		e.Consumers(q)
	}
	if sent > 0 {
		e.Slots(owner, q, sent)
	}
}

// Deliver is for [Dispatcher].
func (h *fakeHub) Deliver(_ int, ds []delivery.Delivery, rest []delivery.Rest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ds {
		h.taken[ds[i].Queue]--
		h.got[ds[i].Run.Job]++
	}
	for _, r := range rest {
		h.taken[r.Queue] -= r.Unused
		h.waits[r.Queue] = min(h.waits[r.Queue], r.N)
		if _, served := h.credits[r.Queue]; served {
			h.credits[r.Queue] += r.Unused
		}
	}
}

// Forget is for [Dispatcher].
func (h *fakeHub) Forget(int) {}

func (h *fakeHub) Awaited(int, []delivery.Awaited) {}

func (h *fakeHub) SetPaused([]delivery.Queue) {}

// seen returns how many slots of a queue the partition waits for, and how many runs have left.
func (h *fakeHub) seen(q delivery.Queue) (waits, got int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waits[q], len(h.got)
}

// nothingLeft checks that the partition has no slots after its rounds.
func (h *fakeHub) nothingLeft(when string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for q, n := range h.taken {
		if n != 0 {
			h.t.Fatalf("%s: %d slots of %s are left", when, n, q.Address)
		}
	}
}

// TestEverySlotIsUsedOrReturned: after its rounds a partition has no slot left, however it got it, and in the
// end each run has left once.
func TestEverySlotIsUsedOrReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rng := context.Background(), rand.New(rand.NewPCG(3, 4))
		hub := &fakeHub{t: t, credits: map[delivery.Queue]int{}, waits: map[delivery.Queue]int{},
			taken: map[delivery.Queue]int{}, got: map[string]int{}}
		e := New(Config{Store: memstore.New(memstore.Options{Partitions: 1})})
		if err := e.Start(ctx, hub); err != nil {
			t.Fatal(err)
		}
		queues, put := []string{"a", "b", "c"}, map[string]int{}
		for i := range 500 {
			name := queues[rng.IntN(len(queues))]
			q := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: name}
			switch rng.IntN(5) {
			case 0:
				var jobs []carillon.Job
				for range 1 + rng.IntN(2*atOnce) {
					put[name]++
					jobs = append(jobs, carillon.Job{Name: fmt.Sprintf("%s/%d", name, put[name]),
						Target: carillon.WorkerQueue(name), Lease: 24 * time.Hour})
				}
				if _, err := e.PutJobs(ctx, jobs); err != nil {
					t.Fatal(err)
				}
			case 1:
				hub.grant(e, q, rng.IntN(2*atOnce))
			case 2:
				former := delivery.Owner{Epoch: hub.owner.Epoch + 7}
				e.Slots(former, q, 5) // they ended with another term
			case 3:
				hub.mu.Lock()
				delete(hub.credits, q) // the last consumer leaves
				hub.mu.Unlock()
			default:
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // runs are parked
			}
			hub.nothingLeft(fmt.Sprint("step ", i))
		}
		for _, name := range queues {
			hub.grant(e, delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker",
				Address: name}, 1_000_000)
		}
		hub.nothingLeft("in the end")
		for _, name := range queues {
			for n := range put[name] {
				if job := fmt.Sprintf("%s/%d", name, n+1); hub.got[job] != 1 {
					t.Fatalf("%d attempts of %s", hub.got[job], job)
				}
			}
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := e.Drain(over); !errors.Is(err, context.Canceled) { // attempts are in force
			t.Error(err)
		}
		for _, name := range queues {
			q := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: name}
			hub.waits[q] = 9
			hub.grant(e, q, 3)
			hub.nothingLeft("in a drain")
		}
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestWhoHasNoConsumerKeepsNoPermit: a run that has a permit of its key and waits for one of its type returns
// the first when the last consumer of its queue has left: runs of other partitions may need it. With a
// consumer it keeps it.
func TestWhoHasNoConsumerKeepsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		hub := &fakeHub{t: t, credits: map[delivery.Queue]int{}, waits: map[delivery.Queue]int{},
			taken: map[delivery.Queue]int{}, got: map[string]int{}}
		e := New(Config{Store: memstore.New(memstore.Options{Partitions: 1})})
		if err := e.Start(ctx, hub); err != nil {
			t.Fatal(err)
		}
		whole, narrow := delivery.ActorLimit("default", "cat", ""), delivery.ActorLimit("default", "cat", "k")
		end, err := e.NameLimits([]delivery.NamedLimit{{Limit: whole, Most: 1}, {Limit: narrow, Most: 1}})
		if err != nil {
			t.Fatal(err)
		}
		q := delivery.Queue{Namespace: "default", Kind: "dapr", Address: "actor/cat"}
		hub.grant(e, q, 10)
		for i, key := range []string{"", "k"} {
			target := &carillon.DaprTarget{AppID: "x", ActorType: "cat", ActorID: fmt.Sprint(i), ConcurrencyKey: key}
			if _, err := e.PutJob(ctx, carillon.Job{Name: target.Prefix() + "r",
				Target: carillon.Target{Dapr: target}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		free := func() (free bool) {
			synctest.Wait()
			e.limiter.locked(func(c *permit.Counter) {
				line := delivery.Line{Limit: narrow, Queue: delivery.Queue{Namespace: "default", Kind: "dapr"}}
				if free, _ = c.Take(0, line); free {
					c.Free(0, narrow)
				}
			})
			return free
		}
		time.Sleep(5 * time.Second)
		if len(hub.got) != 1 || free() {
			t.Errorf("%d were handed out; the permit that is kept is free: %v", len(hub.got), free())
		}
		hub.mu.Lock()
		delete(hub.credits, q)
		hub.mu.Unlock()
		time.Sleep(2 * time.Second)
		if !free() {
			t.Error("a run without a consumer keeps its permit")
		}
		end()
		hub.grant(e, q, 10)
		time.Sleep(2 * time.Second)
		if synctest.Wait(); len(hub.got) != 2 {
			t.Errorf("%d were handed out without limits", len(hub.got))
		}
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestNobodyWaitsForSlotsInVain: while the store is away, runs that must be durable first wait for no slots:
// each that becomes free would come and be returned at once.
func TestNobodyWaitsForSlotsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		hub := &fakeHub{t: t, credits: map[delivery.Queue]int{}, waits: map[delivery.Queue]int{},
			taken: map[delivery.Queue]int{}, got: map[string]int{}, durable: true}
		e := New(Config{Store: memstore.New(memstore.Options{Partitions: 1}), FireCritical: true})
		if err := e.Start(ctx, hub); err != nil {
			t.Fatal(err)
		}
		q := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: "q"}
		hub.grant(e, q, 1)
		for i := range 5 {
			if _, err := e.PutJob(ctx, carillon.Job{Name: fmt.Sprint(i), Priority: carillon.PriorityCritical,
				Due: carillon.In(500 * time.Millisecond), Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		e.reach.away.Store(true) // until the next renewal
		time.Sleep(time.Second)
		hub.nothingLeft("while the store is away")
		if n, got := hub.seen(q); n != 0 || got > 0 {
			t.Errorf("the partition waits for %d slots, and %d left", n, got)
		}
		time.Sleep(10 * time.Second)
		hub.grant(e, q, 4)
		hub.nothingLeft("when it is back")
		if _, got := hub.seen(q); got != 5 {
			t.Errorf("%d runs left", got)
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if err := e.Drain(over); !errors.Is(err, context.Canceled) { // attempts are in force
			t.Error(err)
		}
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
