package scenario_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/store"
)

// leaseEnds is by when a lease has run out for sure, and others have claimed: it is 4 s, and a busy machine
// takes its time.
const leaseEnds = 10 * time.Second

// S06: a node that owns partitions with 2,000 jobs is halted, and goes on long after its leases have ended.
// Others own all of its partitions under greater epochs by then; nothing that it does under the old ones
// counts.
func TestS06Halted(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		a := c.nodes[0]
		split(t, c, func() { must(t, a.Freeze()) }, func() { must(t, a.Thaw()) })
	})
}

// S06: the same for a node that reaches its clients, workers and peers, but not the store: nothing passes,
// and nobody is told.
func TestS06CutOffFromTheStore(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		a := linked(t, c, 0)
		split(t, c, func() { a.Back.Cut(link.Silent) }, func() { a.Back.Heal() })
	})
}

// S06: the same where connections to the store are reset.
func TestS06StoreResets(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		a := linked(t, c, 0)
		split(t, c, func() { a.Back.Cut(link.Broken) }, func() { a.Back.Heal() })
	})
}

// stillOut is for how long a node that was cut off may hand out attempts that others hand out again, since it
// first had something to write of their partition: it notices after 500 ms, and a busy machine takes its
// time.
const stillOut = 1500 * time.Millisecond

// linked is a node with a link to the store.
func linked(t *testing.T, c *city, i int) *chaos.Member {
	t.Helper()
	if c.nodes[i].Back == nil {
		t.Skip("nodes reach this store directly")
	}
	return c.nodes[i]
}

// split cuts node 0 off and heals it again, with jobs due before, meanwhile and after.
func split(t *testing.T, c *city, cut, heal func()) {
	t.Helper()
	a, n := c.nodes[0], 2_000
	c.staff(200, well)
	of := c.owned(a)
	t0 := time.Now().Add(lead)
	away := max(span(60*time.Second), leaseEnds)
	var jobs []carillon.Job
	for i, name := range named("a", n, func(p int) bool { _, ok := of[p]; return ok }) {
		jobs = append(jobs, carillon.Job{Name: name,
			Due: carillon.At(t0.Add(time.Duration(i) * (away + 4*time.Second) / time.Duration(n)))})
	}
	c.load(jobs)
	c.at(t0.Add(2 * time.Second))
	gone := time.Now()
	cut()
	c.until("owned by others", func(owners []store.Owner) bool { return ownedByOthers(owners, of, a.Name) })
	taken := time.Since(gone)
	c.at(gone.Add(away))
	back := time.Now()
	heal()
	c.await("all jobs have run", func() bool { return c.jobs("a/") == n })
	c.settled()
	c.at(t0.Add(away + 6*time.Second)) // for whatever comes twice
	c.early()
	again, begun := c.again(of, gone), c.firstAfter(gone)
	for id, ds := range c.byRun() {
		if len(ds) > 1 && ds[1].At.After(back) && ds[0].At.Before(back) {
			t.Errorf("%s of %s came again %v after the node was back", id, ds[0].Job, ds[1].At.Sub(back))
		}
		if began := begun[partitionOf(ds[0].Job)]; len(ds) > 1 && ds[0].At.Sub(began) > stillOut {
			t.Errorf("%s of %s came twice, first %v after the cut, and %v after one of its partition", id,
				ds[0].Job, ds[0].At.Sub(gone),
				ds[0].At.Sub(began))
		}
	}
	c.succeeded("a/", n)
	t.Logf("%d partitions owned by others after %v; %d runs twice", len(of), taken, again)
}

// firstAfter is when something of a partition was first handed out after an instant.
func (c *city) firstAfter(t time.Time) map[int]time.Time {
	out := map[int]time.Time{}
	for _, d := range c.ledger() {
		if p := partitionOf(d.Job); !d.At.Before(t) && (out[p].IsZero() || d.At.Before(out[p])) {
			out[p] = d.At
		}
	}
	return out
}

// S06: a node is halted through which a worker, that knows no other, gets the runs of all. What the others
// have sent there meanwhile does not reach the worker when it goes on, if its lease has ended.
func TestS06RelayHalted(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		const (
			n, away = 300, 10 * time.Second
			short   = 2 * time.Second
			slack   = 2 * time.Second // of a busy machine, from the node to the worker
		)
		a := c.nodes[0]
		c.employ("relayed", a, n, well, client.WithOneAddress())
		of := c.owned(a)
		t0 := time.Now().Add(lead)
		var jobs []carillon.Job
		for i, name := range named("a", n, func(p int) bool { _, ok := of[p]; return !ok }) {
			jobs = append(jobs, carillon.Job{Name: name,
				Due: carillon.At(t0.Add(time.Duration(i) * away / n)), Lease: short,
				FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(100)})
		}
		c.load(jobs)
		c.at(t0.Add(time.Second))
		must(t, a.Freeze())
		c.at(time.Now().Add(away))
		back := time.Now()
		must(t, a.Thaw())
		c.await("all jobs have run", func() bool { return c.jobs("a/") == n })
		c.settled()
		again := 0
		for id, ds := range c.byRun() {
			again += len(ds) - 1
			for _, d := range ds {
				if old := d.At.Sub(d.Started); d.At.After(back) && old > short+cluster.MaxSkew+slack {
					t.Errorf("attempt %d of %s came %v after it was handed out", d.Attempt, id, old)
				}
			}
		}
		c.succeeded("a/", n)
		t.Logf("%d attempts beside the first of each run have reached the worker", again)
	})
}

// ownedByOthers reports whether all of the partitions have another owner under a greater epoch.
func ownedByOthers(owners []store.Owner, of map[int]store.Owner, name string) bool {
	for _, o := range owners {
		was, ok := of[o.Partition]
		if ok && (o.Node == name || o.Node == "" || o.Term.Epoch <= was.Term.Epoch) {
			return false
		}
	}
	return true
}

// succeeded checks that n jobs of a prefix are in the history with one success each, and are gone.
func (c *city) succeeded(prefix string, n int) {
	c.t.Helper()
	cl := c.client(c.Running()[0])
	c.await("no job is left", func() bool { // what a busy worker has just done may not be recorded yet
		page, err := cl.ListJobs(c.t.Context(), carillon.JobQuery{Prefix: prefix, PageSize: 1})
		return err == nil && len(page.Jobs) == 0
	})
	done := c.successes(cl, prefix)
	for job, times := range done {
		if times != 1 {
			c.t.Errorf("%s has succeeded %d times", job, times)
		}
	}
	if len(done) != n {
		c.t.Errorf("%d of %d jobs have succeeded", len(done), n)
	}
}

// successes is how often each job of a prefix has succeeded, as its history says.
func (c *city) successes(cl *client.Client, prefix string) map[string]int {
	c.t.Helper()
	var names []string
	for _, d := range c.ledger() {
		if strings.HasPrefix(d.Job, prefix) {
			names = append(names, d.Job)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out := make([]int, len(names))
	var all errgroup.Group
	all.SetLimit(16)
	for i, name := range names {
		all.Go(func() error {
			page, err := cl.ListRuns(c.t.Context(), carillon.RunQuery{Job: name, PageSize: carillon.MaxBatch})
			for k := range page.Runs {
				if page.Runs[k].Status == carillon.RunSucceeded {
					out[i]++
				}
			}
			return err
		})
	}
	must(c.t, all.Wait())
	done := map[string]int{}
	for i, name := range names {
		if out[i] > 0 {
			done[name] = out[i]
		}
	}
	return done
}
