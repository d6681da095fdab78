package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store/memory"
)

// TestOneTokenGoesAround: one permit serves many partitions of several nodes, without a pause and in the
// right order.
func TestOneTokenGoesAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, takes, writes = 100, 10 * time.Millisecond, time.Millisecond
		s := &faulty{Store: memory.New(memory.Options{Partitions: 64})}
		f := startFleet(t, s, 3, func(_ int, c *engine.Config) { c.Lanes = 64 })
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		ctx := context.Background()
		put := func(j carillon.Job) {
			j.Target, j.ConcurrencyKey = carillon.WorkerQueue("q"), "one"
			if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, j) }); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := route(ctx, f, func(n *node) (carillon.Namespace, error) {
			return n.PutNamespace(ctx, carillon.Namespace{ConcurrencyLimits: map[string]int{"one": 1}})
		}); err != nil {
			t.Fatal(err)
		}
		for _, n := range f.nodes {
			if err := n.ReloadNamespace(ctx, "default"); err != nil {
				t.Fatal(err)
			}
		}
		s.fail(func(apply func() error) error { time.Sleep(writes); return apply() })
		var mu sync.Mutex
		var order []string
		inForce := 0
		for _, n := range f.nodes {
			n.consumeMany("q", 10, func(r carillon.Run) *carillon.Result {
				mu.Lock()
				order = append(order, r.Job)
				if inForce++; inForce > 1 {
					t.Errorf("%d in force", inForce)
				}
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				inForce--
				mu.Unlock()
				return success(r)
			})
		}
		due := time.Now().Add(time.Second)
		for i := range jobs {
			put(carillon.Job{Name: fmt.Sprint("plain", i), Due: carillon.At(due)})
		}
		ran := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(order)
		}
		for ran() < jobs/2 {
			time.Sleep(takes)
		}
		before := ran()
		put(carillon.Job{Name: "urgent", Priority: carillon.PriorityCritical})
		for ran() <= jobs {
			time.Sleep(takes)
			if time.Since(due) > time.Minute {
				t.Fatalf("%d of %d have run", ran(), jobs+1)
			}
		}
		if most := (jobs + 1) * (takes + 4*writes); time.Since(due) > most {
			t.Errorf("it took %v for one after the other, more than %v", time.Since(due), most)
		}
		if at := slices.Index(order, "urgent"); at > before+2 {
			t.Errorf("the urgent run was number %d, put after number %d", at, before)
		}
		time.Sleep(5 * time.Second)
		f.stop()
	})
}

// TestSettingsReachEveryNode: at once if they are announced, within 5 s if the announcement is lost, and at
// the start.
func TestSettingsReachEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 8})
		var f *fleet
		lost := false
		f = startFleet(t, s, 3, func(_ int, c *engine.Config) {
			c.Announce = func(ns string) {
				for _, n := range f.nodes {
					if !lost {
						go func() { _ = n.ReloadNamespace(ctx, ns) }()
					}
				}
			}
		})
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		set := func(strict bool) {
			t.Helper()
			if _, err := route(ctx, f, func(n *node) (carillon.Namespace, error) {
				return n.PutNamespace(ctx, carillon.Namespace{Name: "ns", Strict: strict})
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		refused := func() (nodes int) {
			for _, n := range f.nodes {
				for i := range 20 {
					_, err := n.PutJob(ctx, carillon.Job{Namespace: "ns", Name: fmt.Sprint(i), Schedule: "@every 2s", Target: carillon.WorkerQueue("q"),
						FailurePolicy: retries()})
					if errors.Is(err, carillon.InvalidArgument) {
						nodes++
						break
					}
				}
			}
			return nodes
		}
		if set(true); refused() != 3 {
			t.Errorf("%d of 3 nodes know what was announced", refused())
		}
		lost = true
		if set(false); refused() != 2 {
			t.Errorf("%d of 2 nodes go by what was lost", refused())
		}
		time.Sleep(5 * time.Second)
		if refused() != 0 {
			t.Errorf("%d nodes do not know after 5 s", refused())
		}
		set(true)
		f.nodes = append(f.nodes, startWith(t, engine.Config{Store: s, Node: "late", Standby: true, Peers: peers{f}}))
		_, err := f.nodes[3].PutJob(ctx, carillon.Job{Namespace: "ns", Name: "a", Schedule: "@every 2s", Target: carillon.WorkerQueue("q"), FailurePolicy: retries()})
		if !errors.Is(err, carillon.InvalidArgument) {
			t.Errorf("a node that starts does not know: %v", err)
		}
		f.stop()
	})
}
