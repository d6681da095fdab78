package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// warned puts a job and returns its warnings.
func (n *node) warned(j carillon.Job) []string {
	n.t.Helper()
	j.Target = carillon.WorkerQueue("q")
	put, err := n.PutJob(n.t.Context(), j)
	if err != nil {
		n.t.Fatal(err)
	}
	return put.Warnings
}

// wantWarnings checks how each warning begins.
func wantWarnings(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range want {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAPutIsToldWhatStandsInItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{}), Advise: func(q delivery.Queue) string {
			return "target: nobody serves " + q.Address
		}})
		wantWarnings(t, "unserved", n.warned(carillon.Job{Name: "a", Schedule: "@every 1h"}),
			"target: nobody serves q")
		wantWarnings(t, "unchanged", n.warned(carillon.Job{Name: "a", Schedule: "@every 1h"}))
		puts, err := n.PutJobs(t.Context(),
			[]carillon.Job{{Name: "b", Target: carillon.WorkerQueue("x")},
				{Name: "c", Target: carillon.WorkerQueue("y")}})
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range []string{"x", "y"} {
			wantWarnings(t, "of a batch", puts[i].Warnings, "target: nobody serves "+q)
		}
		n.stop()
	})
}

func TestALimitKeyWithoutALimitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		if _, err := n.PutNamespace(t.Context(),
			carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"known": 0}}); err != nil {
			t.Fatal(err)
		}
		wantWarnings(t, "known", n.warned(carillon.Job{Name: "a", ConcurrencyKey: "known",
			Due: carillon.In(time.Hour)}))
		wantWarnings(t, "unknown", n.warned(carillon.Job{Name: "b", ConcurrencyKey: "unknown",
			Due: carillon.In(time.Hour)}), "concurrency_key: ")
		n.stop()
	})
}

func TestADueTimeOfThePastIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		ago := func(d time.Duration) carillon.Job {
			return carillon.Job{Name: d.String(), Due: carillon.At(time.Now().Add(-d))}
		}
		wantWarnings(t, "a clock that is behind", n.warned(ago(30*time.Second)))
		wantWarnings(t, "a day ago", n.warned(ago(24*time.Hour)), "due_time: it was 24h ago")
		begun := ago(24 * time.Hour)
		begun.Name, begun.Schedule = "recurring", "@every 1h"
		wantWarnings(t, "a schedule that began", n.warned(begun))
		wantWarnings(t, "now", n.warned(carillon.Job{Name: "now"}))
		n.stop()
	})
}

// TestCalendarsThatLeaveNoTimeAreTold: such a job is put, since calendars change, and does not run.
func TestCalendarsThatLeaveNoTimeAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		mustPutCalendar(t, n, carillon.Calendar{Name: "past", Dates: []string{"1999-01-01"}})
		mustPutCalendar(t, n, carillon.Calendar{Name: "off", Dates: []string{"12-25"}})
		mustPutCalendar(t, n, carillon.Calendar{Name: "always", Dates: []string{"01-01/12-31"}})
		rules := func(except, only []string) carillon.CalendarRules {
			return carillon.CalendarRules{Except: except, Only: only}
		}
		for name, c := range map[string]struct {
			rules carillon.CalendarRules
			want  []string
		}{
			"some":    {rules([]string{"off"}, nil), nil},
			"one day": {rules(nil, []string{"off"}), nil},
			"both":    {rules([]string{"off"}, []string{"off"}), []string{"only: the calendars, as they are now, leave no time"}},
			"over":    {rules(nil, []string{"past"}), []string{"only: the calendars"}},
			"always":  {rules([]string{"always"}, nil), []string{"except: the calendars"}},
		} {
			job := carillon.Job{Name: name, Schedule: "0 9 * * *", Calendars: c.rules}
			wantWarnings(t, name, n.warned(job), c.want...)
			job.Note, job.Paused = "paused", true
			wantWarnings(t, name+", paused", n.warned(job))
		}
		n.stop()
	})
}

func TestJobsThatWaitForEachOtherAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		after := func(name string, names ...string) carillon.Job {
			return carillon.Job{Name: name, DependsOn: names, Due: carillon.In(time.Hour)}
		}
		n.warned(after("c"))
		wantWarnings(t, "b", n.warned(after("b", "c")))
		wantWarnings(t, "a", n.warned(after("a", "b", "c")))
		wantWarnings(t, "c", n.warned(after("c", "a")),
			`depends_on: the jobs wait for each other ("c" after "a" after "c"), so`)
		wantWarnings(t, "outside", n.warned(after("outside", "a")))
		together := []carillon.Job{after("x", "z"), after("y", "x"), after("z", "y")}
		for i := range together {
			together[i].Target = carillon.WorkerQueue("q")
		}
		puts, err := n.PutJobs(t.Context(), together)
		if err != nil {
			t.Fatal(err)
		}
		wantWarnings(t, "x", puts[0].Warnings,
			`depends_on: the jobs wait for each other ("x" after "z" after "y" after "x"), so`)
		n.stop()
	})
}

// TestALimitHoldsForPutsEverywhere: once a limit has been set no node warns that the key has none, even if it
// was not announced.
func TestALimitHoldsForPutsEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 6}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		owner := f.nodes[store.PartitionOf(carillon.Key{Namespace: "default"}, 6)%3]
		put := func(name string, want ...string) {
			for i := range 18 {
				j := carillon.Job{Name: fmt.Sprint(name, i), ConcurrencyKey: "k", Due: carillon.In(time.Hour),
					Target: carillon.WorkerQueue("q")}
				put, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) {
					return n.PutJob(t.Context(), j)
				})
				if err != nil {
					t.Fatal(err)
				}
				wantWarnings(t, name, put.Warnings, want...)
			}
		}
		put("before", "concurrency_key: ")
		if _, err := owner.PutNamespace(t.Context(),
			carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"k": 1}}); err != nil {
			t.Fatal(err)
		}
		put("limited")
		f.stop()
	})
}
