package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	memstore "github.com/carillonhq/carillon/server/store/memory"
)

// fakeHub is a dispatcher of one partition. Its consumers grant credits, and say nothing of what they get.
type fakeHub struct {
	Dispatcher
	t testing.TB

	mu      sync.Mutex
	credits map[delivery.Queue]int // by queue with a consumer
	taken   map[delivery.Queue]int // slots
	got     map[string]int         // attempts by job
}

// Offer is for [Dispatcher].
func (h *fakeHub) Offer(_ int, lineup []delivery.Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := map[delivery.Queue]bool{}
	for i := range lineup {
		w := &lineup[i]
		if asked[w.Queue] || w.Now > atOnce {
			h.t.Errorf("asked for %d slots of %v; asked before: %v", w.Now, w.Queue, asked[w.Queue])
		}
		asked[w.Queue] = true
		credits, served := h.credits[w.Queue]
		w.Slots = delivery.Slots{N: min(w.Now, credits), Served: served}
		h.credits[w.Queue] -= w.Slots.N
		h.taken[w.Queue] += w.Slots.N
		if !served {
			delete(h.credits, w.Queue)
		}
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
		h.credits[r.Queue] += r.Unused
	}
}

// Forget is for [Dispatcher].
func (h *fakeHub) Forget(int) {}

// TestEverySlotIsUsedOrReturned: after each round no slot is left with the partition, and no run waits beside
// a credit.
func TestEverySlotIsUsedOrReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rng := context.Background(), rand.New(rand.NewPCG(3, 4))
		hub := &fakeHub{t: t, credits: map[delivery.Queue]int{}, taken: map[delivery.Queue]int{}, got: map[string]int{}}
		e := New(Config{Store: memstore.New(memstore.Options{Partitions: 1})})
		if err := e.Start(ctx, hub); err != nil {
			t.Fatal(err)
		}
		queues, put := []string{"a", "b", "c"}, map[string]int{}
		for i := range 500 {
			name := queues[rng.IntN(len(queues))]
			q := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: name}
			switch rng.IntN(4) {
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
				hub.mu.Lock()
				hub.credits[q] += rng.IntN(2 * atOnce)
				hub.mu.Unlock()
				e.Consumers(q)
			case 2:
				hub.mu.Lock()
				delete(hub.credits, q) // the last consumer leaves
				hub.mu.Unlock()
			default:
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // runs are parked
			}
			synctest.Wait()
			hub.mu.Lock()
			for q, n := range hub.taken {
				if n != 0 {
					t.Fatalf("step %d: %d slots of %s are left", i, n, q.Address)
				}
			}
			hub.mu.Unlock()
		}
		for _, name := range queues {
			q := delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: name}
			hub.mu.Lock()
			hub.credits[q] += 1_000_000
			hub.mu.Unlock()
			e.Consumers(q)
		}
		synctest.Wait()
		for _, name := range queues {
			for n := range put[name] {
				if job := fmt.Sprintf("%s/%d", name, n+1); hub.got[job] != 1 {
					t.Fatalf("%d attempts of %s", hub.got[job], job)
				}
			}
		}
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}
