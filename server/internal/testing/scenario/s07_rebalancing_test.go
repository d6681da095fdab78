package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

// adders put jobs while nodes come and go, each through a node of its own choice that is not told to leave.
type adders struct {
	c       *city
	mu      sync.Mutex
	leaving *chaos.Member
	put     atomic.Int64
	failed  atomic.Int64
	first   atomic.Value // error
	running sync.WaitGroup
}

// next is the node to ask; nil if none runs.
func (a *adders) next(i int) *chaos.Member {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.DeleteFunc(a.c.Running(), func(m *chaos.Member) bool { return m == a.leaving })
	if len(all) == 0 {
		return nil
	}
	return all[i%len(all)]
}

// leaves says which node is about to leave; nil: none.
func (a *adders) leaves(m *chaos.Member) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = m
}

// gone is who is leaving.
func (a *adders) gone() *chaos.Member {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leaving
}

// add puts n jobs at a rate of its own.
func (a *adders) add(name string, n int, every time.Duration) {
	a.running.Go(func() {
		clients := map[*chaos.Member]*client.Client{}
		defer func() {
			for _, cl := range clients {
				_ = cl.Close() // nobody uses it any more
			}
		}()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := range n {
			<-tick.C
			m := a.next(i)
			if m == nil {
				return // the test has failed
			}
			if clients[m] == nil {
				cl, err := client.Dial(m.Front.Address())
				if err != nil {
					panic(err) // its address is one that was listened at
				}
				clients[m] = cl
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err := clients[m].PutJob(ctx, carillon.Job{Name: fmt.Sprintf("%s/%d", name, i),
				Target: carillon.WorkerQueue("q"), Due: carillon.In(time.Hour)})
			cancel()
			if e, ok := errors.AsType[*carillon.Error](err); ok && e.Kind == carillon.Unavailable &&
				!e.Unknown && m == a.gone() {
				continue // it was told to leave just now, and says that it has done nothing
			}
			if err != nil {
				a.failed.Add(1)
				a.first.CompareAndSwap(nil, fmt.Errorf("%s/%d by %s: %w", name, i, m.Name, err))
				continue
			}
			a.put.Add(1)
		}
	})
}

// longLease is how long a dead node's partitions are left alone where no node dies. A hand-over that waits for
// it is told by that from one on a slow machine.
const longLease = patience / 2

// S07: 100 jobs run every second while 3 nodes become 5 and 3 again and then all are restarted one after the
// other. No time is left out or made up, nothing waits for a lease to end, and 5,000 puts all succeed.
func TestS07Rebalancing(t *testing.T) {
	inCity(t, 3, func(t *testing.T, c *city) {
		const jobs = 100
		times := max(24, count(120))
		for i := range 20 {
			c.employ(fmt.Sprint("consumer-", i), c.nodes[i%3], 50, well)
		}
		t0 := time.Now().Add(lead)
		var all []carillon.Job
		for i := range jobs {
			all = append(all, carillon.Job{Name: fmt.Sprint("tick/", i), Schedule: "@every 1s",
				Due: carillon.At(t0), Repeats: uint64(times)})
		}
		c.load(all)
		a := &adders{c: c}
		n := count(5_000) / 4
		for i := range 4 {
			a.add(fmt.Sprint("add-", i), n, time.Duration(times)*time.Second/time.Duration(n))
		}
		changes := c.scale(a)
		a.running.Wait()
		if failed := a.failed.Load(); failed > 0 {
			t.Errorf("%d of %d puts failed, such as %v", failed, 4*n, a.first.Load())
		}
		c.await("all times have run", func() bool { return c.complete("tick/", jobs, times) })
		c.early()
		silent := c.silent("tick/")
		if silent > longLease/2 {
			t.Errorf("a job was silent for %v: a partition was not given back", silent)
		}
		for id, ds := range c.byRun() {
			if len(ds) > 1+changes {
				t.Errorf("%s of %s was delivered %d times, and the nodes changed %d times", id, ds[0].Job,
					len(ds), changes)
			}
		}
		t.Logf("%d changes, %d puts; silent for at most %v, latest %v", changes, a.put.Load(), silent,
			quantile(c.lateness(nil, false), 1))
	}, "--lease-ttl", longLease.String())
}

// scale makes three nodes five and three again, and restarts those. It returns how many changes that was.
func (c *city) scale(a *adders) (changes int) {
	c.t.Helper()
	c.mu.Lock()
	before := len(c.moves)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patience)
	defer cancel()
	more, err := c.Start(ctx, 2)
	must(c.t, err)
	c.settled()
	for _, m := range c.Running() {
		if n := len(c.owned(m)); n < partitions/10 {
			c.t.Errorf("of five nodes, %s owns %d of %d partitions", m.Name, n, partitions)
		}
	}
	c.mu.Lock()
	moved := map[int]bool{}
	for _, m := range c.moves[before:] {
		if m.to.Node != "" {
			moved[m.to.Partition] = true
		}
	}
	c.mu.Unlock()
	least := 0
	for _, m := range more {
		least += len(c.owned(m))
	}
	if len(moved)*5 > least*6 {
		c.t.Errorf("%d partitions have moved, and the two new nodes own %d", len(moved), least)
	}
	leave := func(m *chaos.Member) {
		a.leaves(m)
		must(c.t, m.Leave(ctx))
	}
	for _, m := range more {
		leave(m)
		c.settled()
	}
	for _, m := range c.nodes {
		leave(m)
		must(c.t, m.Start())
		c.settled()
		a.leaves(nil)
	}
	return 4 + 2*len(c.nodes)
}

// complete reports whether each of n jobs has run so many of its times.
func (c *city) complete(prefix string, n, times int) bool {
	ran := map[string]map[int64]bool{}
	for _, d := range c.ledger() {
		if strings.HasPrefix(d.Job, prefix) {
			if ran[d.Job] == nil {
				ran[d.Job] = map[int64]bool{}
			}
			ran[d.Job][d.Scheduled.UnixNano()] = true
		}
	}
	if len(ran) < n {
		return false
	}
	for job, at := range ran {
		if len(at) > times {
			c.t.Errorf("%s has run %d times of %d", job, len(at), times)
		}
		if len(at) < times {
			return false
		}
	}
	return true
}

// silent is the longest time between two runs of one job.
func (c *city) silent(prefix string) (most time.Duration) {
	last := map[string]time.Time{}
	for _, d := range c.ledger() {
		if before := last[d.Job]; strings.HasPrefix(d.Job, prefix) && !before.IsZero() {
			most = max(most, d.At.Sub(before))
		}
		last[d.Job] = d.At
	}
	return most
}
