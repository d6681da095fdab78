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
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// goingBack is a store that goes back once, before its n-th write from now on, to what it held after an
// earlier write.
type goingBack struct {
	*faulty
	memory *memory.Store
	mu     sync.Mutex
	writes int
	pasts  []*memory.Past
	at     time.Time // when it went back; zero: not yet
}

func newGoingBack(partitions int) *goingBack {
	m := memory.New(memory.Options{Partitions: partitions})
	return &goingBack{faulty: &faulty{Store: m}, memory: m}
}

// arm makes the store go back before its n-th write, by as many writes as given.
func (g *goingBack) arm(n, by int) {
	g.pasts = []*memory.Past{g.memory.Past()}
	g.fail(func(apply func() error) error {
		time.Sleep(time.Millisecond) // so that callers who are to be answered by then have been
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.writes++; g.writes == n {
			g.memory.Revert(g.pasts[max(0, len(g.pasts)-1-by)])
			g.at = time.Now()
		}
		err := apply()
		g.pasts = append(g.pasts, g.memory.Past())
		return err
	})
}

// wentBack returns when the store went back.
func (g *goingBack) wentBack() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at
}

// TestABatchOverAFailoverIsWhole: or is not there, wherever in the course of the put the store goes back, and
// by however much. A success that is reported after the failover is true.
func TestABatchOverAFailoverIsWhole(t *testing.T) {
	for nodes := 1; nodes <= 2; nodes++ {
		for n := 1; n <= 14; n++ {
			for by := range n {
				t.Run(fmt.Sprintf("%d nodes write %d back %d", nodes, n, by), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { batchOverFailover(t, nodes, n, by) })
				})
			}
		}
	}
}

func batchOverFailover(t *testing.T, nodes, n, by int) {
	ctx := context.Background()
	s := newGoingBack(4)
	f := startFleet(t, s, nodes, func(_ int, c *engine.Config) {
		c.Lanes = 4
		if nodes == 1 {
			c.Peers, c.Standby = nil, false
		}
	})
	if nodes > 1 {
		f.deal(func(p int) int { return p % nodes })
	}
	f.settled()
	var jobs []carillon.Job
	for p := range 4 {
		jobs = append(jobs, carillon.Job{Namespace: "default", Name: f.at(p, 0), Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("q")})
	}
	jobs[3].DependsOn = []string{jobs[0].Name}
	s.arm(n, by)
	_, err := f.nodes[0].PutJobs(ctx, jobs)
	answered := time.Now()
	time.Sleep(20 * time.Second)
	s.fail(nil)
	page, listed := f.nodes[0].ListJobs(ctx, carillon.JobQuery{})
	if listed != nil {
		t.Fatal(listed)
	}
	unknown := false
	if e, ok := errors.AsType[*carillon.Error](err); ok {
		unknown = e.Unknown
	}
	back := s.wentBack()
	switch all := len(page.Jobs) == len(jobs); {
	case !all && len(page.Jobs) > 0:
		t.Errorf("%d of %d jobs are there; the call was told %v", len(page.Jobs), len(jobs), err)
	case all && err != nil && !unknown:
		t.Errorf("all are there although the call was told %v", err)
	case !all && err == nil && (back.IsZero() || back.Before(answered)):
		t.Error("none is there although the call succeeded after the failover")
	}
	f.stop()
}

// TestNobodyWaitsForWhatSucceeded: over a failover at any point in the course of the puts of a job and of one
// that depends on it, or of the first one's success. When the first has succeeded the second runs, and while
// the first does not exist the second says so.
func TestNobodyWaitsForWhatSucceeded(t *testing.T) {
	for nodes := 1; nodes <= 2; nodes++ {
		for n := 1; n <= 12; n++ {
			for by := range n {
				for _, puts := range []bool{true, false} {
					t.Run(fmt.Sprintf("%d nodes write %d back %d of the puts %v", nodes, n, by, puts), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { waitOverFailover(t, nodes, n, by, puts) })
					})
				}
			}
		}
	}
}

func waitOverFailover(t *testing.T, nodes, n, by int, puts bool) {
	s := newGoingBack(4)
	f := startFleet(t, s, nodes, func(_ int, c *engine.Config) {
		if nodes == 1 {
			c.Peers, c.Standby = nil, false
		}
	})
	if nodes > 1 {
		f.deal(func(p int) int { return p % nodes })
	}
	f.settled()
	for _, node := range f.nodes {
		node.consume("q", 5, success)
	}
	first := carillon.Job{Namespace: "default", Name: f.at(0, 0), Due: carillon.In(30 * time.Second),
		Target: carillon.WorkerQueue("q")}
	second := carillon.Job{Namespace: "default", Name: f.at(1, 0), DependsOn: []string{first.Name},
		Target: first.Target}
	if puts {
		s.arm(n, by)
	}
	f.mustPut(first)
	f.mustPut(second)
	time.Sleep(20 * time.Second)
	if !puts {
		s.arm(n, by)
		time.Sleep(20 * time.Second)
	}
	s.fail(nil)
	time.Sleep(3 * time.Minute)
	there := func(j carillon.Job) bool { _, err := f.get(j.Name); return err == nil }
	if there(second) {
		j, err := f.get(second.Name)
		if err != nil || !slices.Equal(j.Status.Missing, []string{first.Name}) ||
			j.Status.Phase != carillon.PhaseWaiting {
			t.Errorf("the second job stands at %+v, %v", j.Status, err)
		}
		f.mustPut(first)
		time.Sleep(3 * time.Minute)
	}
	if there(first) || there(second) {
		t.Errorf("left: the first %v, the second %v", there(first), there(second))
	}
	f.stop()
}

// mustPut puts a job, and again while it is refused or the outcome is unknown.
func (f *fleet) mustPut(j carillon.Job) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		_, err := route(ctx, f, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, j) })
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			f.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
