package scenario_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
)

// heartbeat says that a run goes on.
func (k *worker) beat(r carillon.Run) {
	// A session that has ended takes nothing more.
	_ = k.session.Send(context.Background(),
		carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: r.Token, RunID: r.ID}}})
}

// S09: a worker dies 40 s into a run whose lease is 120 s and which it kept alive by heartbeats: the run goes
// to another worker when the lease, counted from the last heartbeat, has ended. Heartbeats write nothing.
func TestS09WorkerCrash(t *testing.T) {
	var commits atomic.Int64
	c := engine.Config{Events: engine.Events{Committed: func(records int, _ time.Duration,
		_ error) {
		commits.Add(int64(records))
	}}}
	withConfig(t, c, func(t *testing.T, w *world) {
		var a *worker
		a = w.work("a", func(r carillon.Run) []carillon.Result {
			for range 3 { // at 10, 20, 30 s
				time.Sleep(10 * time.Second)
				a.beat(r)
			}
			return nil
		})
		before := commits.Load()
		w.put(carillon.Job{Name: "101", Lease: 2 * time.Minute})
		sleep(40 * time.Second)
		a.crash()
		w.work("b", done)
		sleep(109 * time.Second)
		if n := len(w.deliveries("101")); n != 1 {
			t.Fatalf("%d deliveries before the lease ended", n)
		}
		sleep(2 * time.Second)
		ds := w.deliveries("101")
		if len(ds) != 2 || ds[1].Worker != "b" || ds[1].Attempt != 2 || ds[1].ID != ds[0].ID {
			t.Fatalf("after the lease: %+v", ds)
		}
		if lost := ds[1].At.Sub(ds[0].At); lost < 150*time.Second || lost > 151*time.Second {
			t.Errorf("b began %v after a, want 150 s: the last beat and the lease", lost)
		}
		sleep(2 * time.Second)
		if n := commits.Load() - before; n > 5 {
			t.Errorf("%d records written for one run", n)
		}
		w.empty()
	})
}

// S10: the worker cannot reach the node while its run goes on, and can again before the lease ends: nothing
// is given to anybody else, and its result counts.
func TestS10LinkCutWithinTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		run, lease, from, to time.Duration
		attempts             int
	}{
		"within the lease":   {100 * time.Second, 2 * time.Minute, 30 * time.Second, 90 * time.Second, 1},
		"long run":           {300 * time.Second, 2 * time.Minute, 30 * time.Second, 90 * time.Second, 1},
		"across its end":     {300 * time.Second, time.Minute, 100 * time.Second, 170 * time.Second, 2},
		"twice within it":    {200 * time.Second, 2 * time.Minute, 20 * time.Second, 130 * time.Second, 1},
		"at the very start":  {100 * time.Second, 2 * time.Minute, time.Millisecond, 100 * time.Second, 1},
		"until after a herd": {90 * time.Second, time.Minute, 10 * time.Second, 60 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				runs := make(chan carillon.Run, 10)
				first := w.work("a", func(r carillon.Run) []carillon.Result { runs <- r; return nil })
				w.put(carillon.Job{Name: "job", Lease: test.lease})
				r := <-runs
				began := time.Now()
				until := func(at time.Duration, k *worker) {
					for time.Since(began) < at {
						time.Sleep(min(10*time.Second, at-time.Since(began)))
						if k != nil {
							k.beat(r)
						}
					}
				}
				until(test.from, first)
				first.crash()
				until(test.to, nil)
				second := w.work("a", done) // the same process, connected again
				second.beat(r)
				until(test.run, second)
				second.send(carillon.WorkRequest{Results: done(r)})
				sleep(time.Second)
				acks, stale := second.told()
				if n := len(w.deliveries("job")); n != test.attempts {
					t.Errorf("%d attempts, want %d", n, test.attempts)
				}
				// the second attempt's is acknowledged, if there is one
				if acks != 1 || (stale == 0) != (test.attempts == 1) {
					t.Errorf("%d acknowledged, %d stale", acks, stale)
				}
			})
		})
	}
}

// S11: the node dies with 200 runs in force; 50 of them end while it is down. It takes all up again: each is
// completed once, none is given to anybody else.
func TestS11NodeCrash(t *testing.T) {
	const n = 200
	inBubble(t, func(t *testing.T, w *world) {
		var runs []carillon.Run
		got := make(chan carillon.Run, n)
		h := hello{queues: []string{"q"}, credits: n}
		w.connect("worker", h, func(r carillon.Run) []carillon.Result { got <- r; return nil })
		for i := range n {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(5 * time.Second) // the grants have become durable
		w.kill()
		for len(got) > 0 {
			runs = append(runs, <-got)
		}
		if len(runs) != n {
			t.Fatalf("%d runs in force", len(runs))
		}
		sleep(30 * time.Second)
		w.start()
		again := w.connect("worker", hello{queues: []string{"q"}, credits: n}, never)
		for i := range 50 { // ended meanwhile
			again.send(carillon.WorkRequest{Results: done(runs[i])})
		}
		for _, r := range runs[50:] {
			again.beat(r)
		}
		sleep(20 * time.Second)
		for _, r := range runs[50:] {
			again.send(carillon.WorkRequest{Results: done(r)})
		}
		sleep(2 * time.Second)
		if acks, stale := again.told(); acks != n || stale != 0 {
			t.Errorf("%d acknowledged, %d stale; want %d and 0", acks, stale, n)
		}
		if d := len(w.deliveries("")); d != n {
			t.Errorf("%d deliveries of %d runs", d, n)
		}
		w.empty()
	})
}
