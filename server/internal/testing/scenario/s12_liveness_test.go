package scenario_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// S12 speaks of a store for liveness beside the durable one, which is lost for 300 s while 100 runs of 60 s
// and 20 runs of 300 s go on. There is none here: what is known of heartbeats is in the memory of the nodes,
// and all else in one store, be it PostgreSQL or Redis. So the scenario is three.
//
// Two nodes of three are killed, and with them all that they had heard of their runs. Jobs can be put all the
// time, and when the third node has taken over, as fast as before. No run is given to anybody else, and each
// ends well once.
func TestS12LivenessIsLost(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		w := newWork()
		c.employ("a", c.nodes[0], short+long, w.do)
		c.begin(w, short+long, lease)
		c.employ("b", c.nodes[0], short+long, w.do) // waits for somebody else's runs
		before := c.putLatency("before", 200)
		c.at(time.Now().Add(justBefore))
		began := time.Now()
		for _, m := range c.nodes[1:] {
			must(t, m.Kill())
		}
		c.putLatency("while nobody owns them", 50)
		c.settled()
		while := c.putLatency("while", 200)
		if while > max(2*before, noise) {
			t.Errorf("of a hundred puts the slowest took %v, and %v before", while, before)
		}
		c.at(began.Add(span(60 * time.Second)))
		w.finish(short)
		c.at(began.Add(span(300 * time.Second)))
		for _, m := range c.nodes[1:] {
			must(t, m.Start())
		}
		c.settled()
		w.finish(long)
		c.once(w, short+long)
		t.Logf("p99 of puts: %v before, %v while two nodes were gone", before, while)
	})
}

// How many runs go on, and how long a put may take on a machine that has other things to do.
const (
	short = 100 // of 60 s
	long  = 20  // of 300 s
	noise = 500 * time.Millisecond
)

// putLatency puts jobs that are not due, one after the other through the first node, and returns how long all
// but one in a hundred took at most. None fails.
func (c *city) putLatency(prefix string, n int) time.Duration {
	c.t.Helper()
	cl := c.client(c.nodes[0])
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var took []time.Duration
	for i := range n {
		began := time.Now()
		_, err := cl.PutJob(ctx, carillon.Job{Name: fmt.Sprintf("put/%s/%d", strings.ReplaceAll(prefix, " ",
			"-"), i),
			Target: carillon.WorkerQueue("q"), Due: carillon.In(24 * time.Hour)})
		must(c.t, err)
		took = append(took, time.Since(began))
	}
	return quantile(took, 0.99)
}

// S12: the store's server is killed for as long, and comes back with all that it had acknowledged, as
// PostgreSQL does, and Redis that is set up as docs/stores.md asks (an append-only file, synced at each
// write). Runs go on meanwhile, for longer than their leases, and 100 of them end. None is given to anybody
// else, and each ends well once. What the scenario also asks, that jobs can be put while the store is away,
// cannot be: nothing is acknowledged that is not kept.
func TestS12StoreRestarts(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		w := newWork()
		c.employ("a", c.nodes[0], short+long, w.do)
		c.begin(w, short+long, 2*lease)
		c.employ("b", c.nodes[1], short+long, w.do)
		c.at(time.Now().Add(justBefore))
		began := time.Now()
		c.ClusterConfig.Store.Down()
		c.at(began.Add(span(60 * time.Second)))
		w.finish(short)
		c.at(began.Add(span(300 * time.Second)))
		c.ClusterConfig.Store.Up()
		c.settled()
		c.at(time.Now().Add(3 * lease))
		w.finish(long)
		c.once(w, short+long)
	})
}

// S12: Redis comes back with nothing. The jobs are lost, as docs/stores.md says, and nobody goes on as if
// they were not: no node owns anything, and all say why, until they are started again. Then they have a new,
// empty store. Those who still have runs of the old one are told to stop, and no result of theirs counts.
func TestS12StoreLosesAll(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		if c.ClusterConfig.Store.Lose == nil {
			t.Skip("this store's server keeps what it has")
		}
		const n = 60
		w := newWork()
		c.employ("a", c.nodes[0], n, w.do)
		c.begin(w, n, 2*lease)
		c.at(time.Now().Add(justBefore))
		c.ClusterConfig.Store.Lose()
		c.ClusterConfig.Store.Up()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, m := range c.nodes {
			must(t, m.Until(ctx, "/readyz", func(body string, err error) bool {
				return err != nil && strings.Contains(body, "another store, or none")
			}))
		}
		c.await("nothing is owned in a store that is gone", func() bool { return c.served() == 0 })
		w.finish(10)
		for _, m := range c.nodes {
			must(t, m.Kill())
		}
		for _, m := range c.nodes {
			must(t, m.Start())
		}
		c.settled()
		c.await("all attempts are told to stop", func() bool { return len(w.told()) == n-10 })
		page, err := c.client(c.nodes[0]).ListJobs(ctx, carillon.JobQuery{PageSize: n})
		if must(t, err); len(page.Jobs) > 0 {
			t.Errorf("%d jobs are left, such as %s", len(page.Jobs), page.Jobs[0].Name)
		}
		c.load([]carillon.Job{{Name: "new/0"}})
		c.await("a new job runs", func() bool { return c.jobs("new/") == 1 })
		w.finish(1)
		c.await("it has ended", func() bool { return len(c.successes(c.client(c.nodes[1]), "new/")) == 1 })
		for id, ds := range c.byRun() {
			if len(ds) != 1 {
				t.Errorf("%s of %s was given out %d times", id, ds[0].Job, len(ds))
			}
		}
	})
}
