package daprmove_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	cronpb "github.com/carillonhq/carillon/api/dapr/proto/cron/v1"
	"github.com/carillonhq/carillon/server/internal/daprmove"
	"github.com/carillonhq/carillon/server/internal/server"
)

// grown is the state of a scheduler after n steps, in each of which a job comes, one ends, and one is put again, and when its
// jobs fire, in seconds from a minute before begun.
func grown(begun time.Time, n int) (s *daprmove.State, fires map[string][]int) {
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds-60) * time.Second) }
	s = &daprmove.State{ID: fmt.Sprint("state", n), Origin: fmt.Sprint("step ", n), Cluster: "1"}
	if n%2 == 1 { // two of these do not tell whether they are of one scheduler
		s.History = daprmove.History{Revision: int64(10 + n), Until: int64(10 + n)}
	}
	fires = map[string][]int{}
	once := func(name string, seconds int) {
		s.Records = append(s.Records, record(name, &cronpb.JobSpec{DueTime: new("1s")}, at(seconds), true))
		fires[name] = []int{seconds}
	}
	for i := range 12 {
		once(fmt.Sprint("is", i+n), 55+i+n)
	}
	once("anew", 70+n)
	every := "@every 50s"
	s.Records = append(s.Records, counted(record("left", &cronpb.JobSpec{Schedule: &every, Repeats: new(uint32(5))}, at(-200),
		true), 3, 0, at(-20)))
	fires["left"] = []int{30, 80}
	return s, fires
}

// jobsOf are the names of Dapr's jobs that are here.
func jobsOf(t *testing.T, n *server.Node) (names []string) {
	t.Helper()
	got, err := n.Scheduler().ListJobs(t.Context(), carillon.JobQuery{Namespace: "default", Prefix: "dapr/", PageSize: 1000})
	check(t, err)
	for i := range got.Jobs {
		names = append(names, strings.TrimPrefix(got.Jobs[i].Name, "dapr/app/app/"))
	}
	return names
}

// stored is what a mark says.
type stored struct{ Phase, State string }

func markOf(t *testing.T, n *server.Node) (m stored) {
	t.Helper()
	job, err := n.Scheduler().GetJob(t.Context(), theMark)
	check(t, err)
	check(t, json.Unmarshal(job.Data.Bytes, &m))
	return m
}

// TestCutOffImportsOfAStateThatGrows: whatever imports of which states were cut off, also two at once, in the end the jobs of
// one state are here, each of its runs comes once, and no other. That state is the last one, unless an earlier one had been
// put whole before. How two imports at once interleave is not the seed's alone, so seeds are drawn until both ends have
// been seen often enough.
func TestCutOffImportsOfAStateThatGrows(t *testing.T) {
	var takenBack, lastWon atomic.Int64
	told := func(what string, done, _ int) {
		if strings.HasPrefix(what, "taking back") && done == 0 {
			takenBack.Add(1)
		}
	}
	seenBoth := func() bool { return takenBack.Load() >= 5 && lastWon.Load() >= 5 }
	for seed := uint64(0); seed < 40 || !seenBoth() && seed < 400; seed++ {
		synctest.Test(t, func(t *testing.T) {
			chance := &chance{Rand: rand.New(rand.NewPCG(seed, 0))}
			n := node(t)
			begun := time.Now()
			had := connect(t, n)
			step := 0
			for range chance.upTo(8) {
				var all sync.WaitGroup
				for range 1 + chance.upTo(2) {
					step += int(chance.upTo(2))
					state, _ := grown(begun, step)
					ctx, die := context.WithCancel(t.Context())
					all.Go(func() {
						defer die()
						_, err := daprmove.Import(ctx, newMortal(n, die, chance, 30), state, told)
						if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, daprmove.ErrOtherState) {
							t.Errorf("seed %d: %v", seed, err)
						}
					})
				}
				all.Wait()
			}
			last, _ := grown(begun, step+1)
			var report *daprmove.Report
			for err := context.Canceled; errors.Is(err, context.Canceled); {
				ctx, die := context.WithCancel(t.Context())
				report, err = daprmove.Import(ctx, newMortal(n, die, chance, 60), last, told)
				die()
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, daprmove.ErrOtherState) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			m := markOf(t, n)
			if report != nil && (!report.Whole() || m.State != last.ID) || m.Phase != "done" {
				t.Errorf("seed %d: the report is %+v, the mark %+v", seed, report, m)
			}
			if m.State == last.ID {
				lastWon.Add(1)
			}
			var is int
			_, err := fmt.Sscanf(m.State, "state%d", &is)
			check(t, err)
			_, fires := grown(begun, is)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			had.want(t, begun, fires)
			if left := jobsOf(t, n); len(left) > 0 {
				t.Errorf("seed %d: %v are left", seed, left)
			}
			if t.Failed() {
				t.Fatalf("seed %d, the mark is %+v after %d steps", seed, m, step+1)
			}
		})
	}
	if !seenBoth() {
		t.Errorf("jobs were taken back %d times, the last state came in %d times", takenBack.Load(), lastWon.Load())
	}
}

// cutOff ends an import when it is about to do something, for the n-th time.
func cutOff(t *testing.T, n *server.Node, state *daprmove.State, stage string, times int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	_, err := daprmove.Import(ctx, n.Scheduler(), state, func(what string, _, _ int) {
		if strings.Contains(what, stage) {
			if seen++; seen == times {
				synctest.Wait() // what has begun is there
				cancel()
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the import was not cut off: %v", err)
	}
}

// TestWhatACutOffImportPutIsTakenBack, and what somebody has changed since stays as it is.
func TestWhatACutOffImportPutIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		ours := n.Scheduler()
		state, _ := grown(begun, 0)
		cutOff(t, n, state, "comparing", 1)
		key := func(name string) carillon.Key {
			return carillon.Key{Namespace: "default", Name: "dapr/app/app/" + name}
		}
		_, err := ours.PatchJob(t.Context(), key("is0"), carillon.Patch{Fields: []string{"labels"},
			Job: carillon.Job{Labels: map[string]string{"whose": "mine"}}})
		check(t, err)
		_, err = ours.SetPaused(t.Context(), key("is1"), carillon.PauseOptions{Paused: true, Note: "mine"})
		check(t, err)
		_, err = ours.SetPaused(t.Context(), key("anew"), carillon.PauseOptions{})
		check(t, err)
		replaced, err := ours.GetJob(t.Context(), key("is2"))
		check(t, err)
		replaced.Note, replaced.Paused, replaced.Status, replaced.Due = "mine", false, nil, carillon.In(24*time.Hour)
		_, err = ours.PutJob(t.Context(), replaced, carillon.Replace())
		check(t, err)
		_, err = ours.DeleteJob(t.Context(), key("is3"))
		check(t, err)
		before := map[string]carillon.UID{}
		for _, name := range []string{"is0", "is1", "is2", "anew"} {
			job, err := ours.GetJob(t.Context(), key(name))
			check(t, err)
			before[name] = job.Status.UID
		}

		next, _ := grown(begun, 1) // without is0
		report, err := daprmove.Import(t.Context(), ours, next, silent)
		check(t, err)
		if report.TakenBack != 9 || report.Left != 4 { // of 14: is0, is1, is2 and anew stay, is3 has gone
			t.Errorf("%d were taken back, %d left out: %v", report.TakenBack, report.Left, report.Faults)
		}
		for _, want := range []string{"is0: job default/dapr/app/app/is0 was changed while", "is1: job", "is2: job",
			"anew: job default/dapr/app/app/anew is here already"} {
			if !slices.ContainsFunc(report.Faults, func(f daprmove.Fault) bool { return strings.Contains(f.Error(), want) }) {
				t.Errorf("%q is not among %v", want, report.Faults)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			job, err := ours.GetJob(t.Context(), key(name))
			check(t, err)
			if paused := name == "is0" || name == "is1"; job.Status.UID != before[name] || job.Paused != paused {
				t.Errorf("%s is another, or paused %v", name, job.Paused)
			}
		}
		job, err := ours.GetJob(t.Context(), key("is3"))
		check(t, err)
		if job.Paused || job.Note != "" {
			t.Errorf("is3 is %+v", job)
		}
	})
}

// TestOneOfTwoStates: of two imports of different states at once one comes in, the other is refused when that is done.
func TestOneOfTwoStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		had := connect(t, n)
		var all sync.WaitGroup
		won := make(chan int, 3)
		for step := range 3 {
			state, _ := grown(begun, step)
			all.Go(func() {
				report, err := daprmove.Import(t.Context(), n.Scheduler(), state, silent)
				switch {
				case err == nil && report.Whole():
					won <- step
				case !errors.Is(err, daprmove.ErrOtherState) || !strings.Contains(err.Error(), ", from step ") ||
					markOf(t, n).Phase != "done":
					t.Errorf("%d ended with %+v, %v", step, report, err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d came in", len(won))
		}
		_, fires := grown(begun, <-won)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

// TestAnImportThatLetGoIsEnded by that of another state, which does not come in: jobs have fired.
func TestAnImportThatLetGoIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node(t)
		begun := time.Now()
		had := connect(t, n)
		state, fires := grown(begun, 0)
		cutOff(t, n, state, "letting", 5)
		next, _ := grown(begun, 1)
		if _, err := daprmove.Import(t.Context(), n.Scheduler(), next, silent); !errors.Is(err, daprmove.ErrOtherState) {
			t.Errorf("another state: %v", err)
		}
		if m := markOf(t, n); m.Phase != "done" || m.State != state.ID {
			t.Errorf("the mark is %+v", m)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		had.want(t, begun, fires)
	})
}

// TestTheStoreIsAway for longer than others wait: the import makes no calls, and goes on when it is back, unless
// another one has taken over.
func TestTheStoreIsAway(t *testing.T) {
	for _, overtaken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := node(t)
			begun := time.Now()
			had := connect(t, n)
			state, fires := grown(begun, 0)
			a := &away{Scheduler: n.Scheduler()}
			back := time.AfterFunc(time.Hour, func() { a.gone.Store(false) })
			first := true
			importing := func() error {
				_, err := daprmove.Import(t.Context(), a, state, func(what string, _, _ int) {
					if first && strings.Contains(what, "putting") {
						first = false
						a.gone.Store(true)
						back.Reset(time.Minute)
					}
				})
				return err
			}
			ended := make(chan error, 1)
			go func() { ended <- importing() }()
			time.Sleep(14 * time.Second)
			calls := a.calls.Load()
			if overtaken {
				other, otherFires := grown(begun, 1)
				fires = otherFires
				_, err := daprmove.Import(t.Context(), n.Scheduler(), other, silent)
				check(t, err)
			}
			time.Sleep(40 * time.Second)
			if n := a.calls.Load(); n == 0 || n != calls {
				t.Errorf("%d calls were made, then %d", calls, n)
			}
			err := <-ended
			if overtaken {
				if !errors.Is(err, daprmove.ErrLost) || !strings.Contains(err.Error(), "step 1") {
					t.Errorf("it ended with %v", err)
				}
			} else {
				check(t, err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			had.want(t, begun, fires)
		})
	}
}
