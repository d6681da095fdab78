package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// work is runs that go on until the test ends them.
type work struct {
	mu    sync.Mutex
	open  map[string]chan struct{} // by job
	stops []string                 // jobs whose attempt was told to stop
}

func newWork() *work { return &work{open: map[string]chan struct{}{}} }

// do is a handler.
func (w *work) do(ctx context.Context, run carillon.Run) error {
	done := make(chan struct{})
	w.mu.Lock()
	w.open[run.Job] = done
	w.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		w.stops = append(w.stops, run.Job)
		w.mu.Unlock()
		return errGivenUp
	}
}

// errGivenUp ends an attempt that the worker is told to stop.
var errGivenUp = errors.New("told to stop")

// going is how many are.
func (w *work) going() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// finish ends n of them well, those first that come first by name.
func (w *work) finish(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, job := range slices.Sorted(maps.Keys(w.open))[:n] {
		close(w.open[job])
		delete(w.open, job)
	}
}

// told are the jobs whose attempts were told to stop.
func (w *work) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stops)
}

// begin puts n jobs that are due at once, with a lease, and waits until all go on.
func (c *city) begin(w *work, n int, lease time.Duration) {
	c.t.Helper()
	jobs := make([]carillon.Job, n)
	for i := range jobs {
		jobs[i] = carillon.Job{Name: fmt.Sprintf("work/%03d", i), Lease: lease}
	}
	c.load(jobs)
	c.await("all runs go on", func() bool { return w.going() == n })
	c.stored()
}

// stored returns once all attempts that have begun are in the store: a partition stores its changes in order,
// so a put to each of them is stored last.
func (c *city) stored() {
	c.t.Helper()
	var jobs []carillon.Job
	for p := range partitions {
		name := named(fmt.Sprint("put/stored/", p), 1, func(of int) bool { return of == p })[0]
		jobs = append(jobs, carillon.Job{Name: name, Due: carillon.In(24 * time.Hour)})
	}
	c.load(jobs)
}

// once checks that each of n runs was given out once, and has succeeded.
func (c *city) once(w *work, n int) {
	c.t.Helper()
	for id, ds := range c.byRun() {
		if len(ds) != 1 {
			c.t.Errorf("%s of %s was given out %d times: to %s, and after %v to %s", id, ds[0].Job,
				len(ds), ds[0].Worker, ds[1].At.Sub(ds[0].At), ds[1].Worker)
		}
	}
	cl := c.client(c.Running()[0])
	c.await("no job is left", func() bool {
		page, err := cl.ListJobs(c.t.Context(), carillon.JobQuery{Prefix: "work/", PageSize: 10})
		return err == nil && len(page.Jobs) == 0
	})
	c.succeeded("work/", n)
	if stops := w.told(); len(stops) > 0 {
		c.t.Errorf("%d attempts were told to stop, such as that of %s", len(stops), stops[0])
	}
}

// lease is that of the long runs: the SDK's worker sends a heartbeat after a third of it.
const lease = 6 * time.Second

// S10: workers with long runs are cut off from one node, by resets, for longer than the leases of their runs.
// They are healthy and reach the other nodes: their heartbeats and results count, nothing is given to anybody
// else.
func TestS10WorkerCutOffFromANode(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) { cutOff(t, c, link.Broken) })
}

// S10: the same by silence, which no connection notices for half a minute.
func TestS10SilentNode(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) { cutOff(t, c, link.Silent) })
}

// cutOff cuts all workers off from one of three nodes. Some runs end meanwhile, which is known before the cut
// is over.
func cutOff(t *testing.T, c *city, how link.Fault) {
	t.Helper()
	const n, early = 60, 30
	w := newWork()
	c.employ("a", c.nodes[0], n, w.do)
	c.begin(w, n, lease)
	c.employ("b", c.nodes[0], n, w.do) // waits for somebody else's runs
	cut := c.nodes[1]
	cut.Front.CutFrom(chaos.Outside, how)
	w.finish(early)
	cl := c.client(c.nodes[0])
	c.await("the ends of runs are known", func() bool {
		page, err := cl.ListJobs(c.t.Context(), carillon.JobQuery{Prefix: "work/", PageSize: n})
		return err == nil && len(page.Jobs) == n-early
	})
	c.at(time.Now().Add(3 * lease))
	cut.Front.Heal()
	w.finish(n - early)
	c.once(w, n)
}

// S11: a node is killed with runs in progress, of which some end before anybody has its partitions. All are
// completed once, none is given to anybody else.
func TestS11NodeKilledWithRuns(t *testing.T) {
	beside(t, 3, func(t *testing.T, c *city) {
		const n = 200
		w := newWork()
		c.employ("a", c.nodes[0], n, w.do)
		c.begin(w, n, lease)
		c.employ("b", c.nodes[1], n, w.do)
		c.at(time.Now().Add(justBefore)) // until the grants are durable for sure
		killed := time.Now()
		of := c.owned(c.nodes[2])
		must(t, c.nodes[2].Kill())
		w.finish(50)
		c.settled()
		_, last := c.takenOver(of, killed)
		if last > 15*time.Second {
			t.Errorf("the last partition was claimed %v after the kill", last)
		}
		c.at(time.Now().Add(2 * lease)) // leases are kept by heartbeats
		w.finish(n - 50)
		c.once(w, n)
	})
}
