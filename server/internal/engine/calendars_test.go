package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// hourly is a job that runs each hour except on the days of a calendar.
func hourly(name string) carillon.Job {
	return carillon.Job{Name: name, Schedule: "@hourly", Target: carillon.WorkerQueue("q"),
		Calendars: carillon.CalendarRules{Except: []string{"off"}}}
}

// today is the day of the bubble's clock, days from now.
func today(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }

func mustPutCalendar(t *testing.T, n carillon.Calendars, c carillon.Calendar) carillon.Calendar {
	t.Helper()
	got, err := n.PutCalendar(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCalendarsHaveGenerations: a put is for a generation or for any, a restart changes nothing, and a deleted
// calendar begins at 1 again.
func TestCalendarsHaveGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		days := []string{"2027-01-01"}
		for i, c := range []struct {
			put  carillon.Calendar
			want uint64 // 0: refused
		}{
			{carillon.Calendar{Dates: days, Generation: 1}, 0},
			{carillon.Calendar{Dates: days}, 1},
			{carillon.Calendar{Dates: days}, 1},
			{carillon.Calendar{Dates: days, Generation: 2}, 0},
			{carillon.Calendar{Dates: days, Generation: 1, Note: "n"}, 2},
			{carillon.Calendar{Dates: days, TimeZone: "Europe/London"}, 3},
			{carillon.Calendar{}, 4},
		} {
			c.put.Name = "off"
			want := c.put
			want.Namespace, want.Generation = "default", c.want
			got, err := n.PutCalendar(ctx, c.put)
			if c.want == 0 {
				if !errors.Is(err, carillon.FailedPrecondition) {
					t.Errorf("%d: %+v, %v", i, got, err)
				}
				continue
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d: %+v, %v; want %+v", i, got, err, want)
			}
			n.stop()
			n = start(t, s)
			if is, err := n.GetCalendar(ctx, "", "off"); err != nil || fmt.Sprint(is) != fmt.Sprint(want) {
				t.Errorf("%d: in force is %+v, %v; want %+v", i, is, err, want)
			}
		}
		if err := n.DeleteCalendar(ctx, "", "off", carillon.IfGeneration(3)); !errors.Is(err, carillon.FailedPrecondition) {
			t.Error(err)
		}
		if err := n.DeleteCalendar(ctx, "", "off", carillon.IfGeneration(4)); err != nil {
			t.Error(err)
		}
		n.stop()
		n = start(t, s)
		if _, err := n.GetCalendar(ctx, "", "off"); !errors.Is(err, carillon.NotFound) {
			t.Error(err)
		}
		if err := n.DeleteCalendar(ctx, "", "off"); !errors.Is(err, carillon.NotFound) {
			t.Error(err)
		}
		if got := mustPutCalendar(t, n, carillon.Calendar{Name: "off"}); got.Generation != 1 {
			t.Errorf("%+v", got)
		}
		n.stop()
	})
}

// TestCalendarsOfANamespace: a list has them in name order, in pages, and there are so many at most.
func TestCalendarsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		var all sync.WaitGroup
		for i := range carillon.MaxCalendars + 5 { // at once, so that some are not durable when the next comes
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond)
				_, err := n.PutCalendar(ctx, carillon.Calendar{Namespace: "a", Name: fmt.Sprintf("c%03d", i)})
				if (err == nil) != (i < carillon.MaxCalendars) || err != nil && !errors.Is(err, carillon.ResourceExhausted) {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		all.Wait()
		mustPutCalendar(t, n, carillon.Calendar{Namespace: "b", Name: "x"})
		var names []string
		q := carillon.CalendarQuery{Namespace: "a", PageSize: 30}
		for pages := 0; ; pages++ {
			page, err := n.ListCalendars(ctx, q)
			if err != nil || pages > 4 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for _, c := range page.Calendars {
				names = append(names, c.Name)
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				break
			}
		}
		if len(names) != carillon.MaxCalendars || !slices.IsSorted(names) || names[0] != "c000" {
			t.Errorf("%d: %v", len(names), names)
		}
		if _, err := n.ListCalendars(ctx, carillon.CalendarQuery{Namespace: "b", PageToken: q.PageToken + "x"}); err == nil {
			t.Error("a made-up token was taken")
		}
		n.stop()
	})
}

// TestAMissingCalendarIsRefused in every way of putting it. One whose calendar is
// deleted later says so, and runs.
func TestAMissingCalendarIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		refused := func(err error, field string) {
			t.Helper()
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.FailedPrecondition || !strings.HasSuffix(e.Field, field) || !strings.Contains(e.Message, "off") {
				t.Errorf("%v", err)
			}
		}
		_, err := n.PutJob(ctx, hourly("a"))
		refused(err, "except[0]")
		_, err = n.PutJobs(ctx, []carillon.Job{{Name: "b", Target: carillon.WorkerQueue("q")}, hourly("a")})
		refused(err, "except[0]")
		plain := hourly("a")
		plain.Calendars = carillon.CalendarRules{}
		if _, err := n.PutJob(ctx, plain); err != nil {
			t.Fatal(err)
		}
		key := carillon.Key{Name: "a"}
		_, err = n.PatchJob(ctx, key, carillon.Patch{Fields: []string{"only"},
			Job: carillon.Job{Calendars: carillon.CalendarRules{Only: []string{"off"}}}})
		refused(err, "only[0]")
		mustPutCalendar(t, n, carillon.Calendar{Name: "off", Dates: []string{today(0), today(1)}})
		if _, err := n.PatchJob(ctx, key, carillon.Patch{Fields: []string{"except"}, Job: hourly("a")}); err != nil {
			t.Fatal(err)
		}
		j, err := n.GetJob(ctx, key)
		if err != nil || j.Status.NextRun.Format(time.DateOnly) != today(2) || len(j.Status.MissingCalendars) != 0 {
			t.Errorf("%+v, %v", j.Status, err)
		}
		list, err := n.ListJobs(ctx, carillon.JobQuery{})
		if err != nil || !list.Jobs[0].Status.NextRun.Equal(j.Status.NextRun) {
			t.Errorf("in a list: %+v, %v", list.Jobs[0].Status, err)
		}
		if err := n.DeleteCalendar(ctx, "", "off"); err != nil {
			t.Fatal(err)
		}
		j, err = n.GetJob(ctx, key)
		if err != nil || j.Status.NextRun.Format(time.DateOnly) == today(2) || !slices.Equal(j.Status.MissingCalendars, []string{"off"}) {
			t.Errorf("%+v, %v", j.Status, err)
		}
		if _, err := n.PatchJob(ctx, key, carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}}); err != nil {
			t.Errorf("a patch of something else: %v", err)
		}
		n.stop()
	})
}

// TestACalendarHoldsOnEveryNode: jobs of partitions of three nodes go by a calendar that one of them keeps, at
// once if it is announced, within 5 s if the announcement is lost, and on a node that takes over.
func TestACalendarHoldsOnEveryNode(t *testing.T) {
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
		begin := time.Now().UTC().Truncate(time.Hour)
		put := func(hours int) { // off for so many hours
			t.Helper()
			dates := []string{begin.Format(time.RFC3339) + "/" + begin.Add(time.Duration(hours)*time.Hour).Format(time.RFC3339)}
			if _, err := route(ctx, f, func(n *node) (carillon.Calendar, error) {
				return n.PutCalendar(ctx, carillon.Calendar{Name: "off", Dates: dates})
			}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		const jobs = 24
		next := func(hours int, nodes ...*node) (n int) { // jobs whose owners know that
			t.Helper()
			for i := range jobs {
				key := carillon.Key{Namespace: "default", Name: fmt.Sprint(i)}
				owner := nodes[store.PartitionOf(key, 8)%len(nodes)]
				j, err := owner.GetJob(ctx, key)
				if err != nil {
					t.Fatal(err)
				}
				if j.Status.NextRun.Equal(begin.Add(time.Duration(hours) * time.Hour)) {
					n++
				}
			}
			return n
		}
		put(2)
		for i := range jobs { // also on a node that has not heard of the calendar: it looks again
			if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) { return n.PutJob(ctx, hourly(fmt.Sprint(i))) }); err != nil {
				t.Fatal(err)
			}
		}
		if n := next(2, f.nodes...); n != jobs {
			t.Errorf("%d of %d jobs know what was announced", n, jobs)
		}
		lost = true
		if put(3); next(3, f.nodes...) == jobs {
			t.Error("all jobs know what was not announced")
		}
		time.Sleep(5 * time.Second)
		if n := next(3, f.nodes...); n != jobs {
			t.Errorf("%d of %d jobs know after 5 s", n, jobs)
		}
		put(4)
		late := startWith(t, engine.Config{Store: s, Node: "late", Standby: true, Peers: peers{f}, LeaseTTL: 4 * time.Second})
		f.nodes = append(f.nodes, late)
		f.deal(func(int) int { return 3 })
		f.settled()
		c := late.consume("q", 100, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		if n := next(4, late); n != jobs {
			t.Errorf("%d of %d jobs know on a node that has taken over", n, jobs)
		}
		time.Sleep(230 * time.Minute)
		if got := c.got(); len(got) != 0 {
			t.Errorf("%d runs in hours off, as of %v", len(got), got[0].Scheduled)
		}
		time.Sleep(20 * time.Minute)
		if got := c.got(); len(got) != jobs {
			t.Errorf("%d runs afterwards", len(got))
		}
		f.stop()
	})
}

// TestACalendarIsDurableBeforeItHolds, and what the store refused never holds.
func TestACalendarIsDurableBeforeItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 4})}
		n := start(t, f)
		mustPutCalendar(t, n, carillon.Calendar{Name: "off", Dates: []string{"2027-01-01"}})
		f.fail(func(func() error) error { return errors.New("no") })
		if _, err := n.PutCalendar(ctx, carillon.Calendar{Name: "off"}); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("acknowledged: %v", err)
		}
		f.fail(nil)
		time.Sleep(2 * time.Second)
		if got, err := n.GetCalendar(ctx, "", "off"); err != nil || len(got.Dates) != 1 {
			t.Errorf("in force: %+v %v", got, err)
		}
		n.stop()
	})
}

// TestWhatIsShownOfTheNextRunAgrees: the job, its hold, and lists of runs have the first time that calendars do
// not exclude, and none if they exclude all; a list of a stretch of time has the run if that time is in it.
func TestWhatIsShownOfTheNextRunAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		defer n.stop()
		mustPutCalendar(t, n, carillon.Calendar{Name: "off", Dates: []string{today(0), today(1)}})
		mustPutCalendar(t, n, carillon.Calendar{Name: "empty"})
		jittered, never := hourly("jittered"), hourly("never")
		jittered.Jitter = 30 * time.Minute
		never.Calendars = carillon.CalendarRules{Only: []string{"empty"}}
		long := hourly("long") // its spec is not in the index
		long.Data = carillon.Bytes(make([]byte, 2<<10), "")
		for _, j := range []carillon.Job{hourly("plain"), jittered, long, never} {
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		day, err := time.Parse(time.DateOnly, today(2))
		if err != nil {
			t.Fatal(err)
		}
		list := func(q carillon.RunQuery) (runs []carillon.Run) {
			t.Helper()
			q.Statuses = []carillon.RunStatus{carillon.RunScheduled}
			page, err := n.ListRuns(ctx, q)
			if err != nil || page.NextPageToken != "" {
				t.Fatal(page.NextPageToken, err)
			}
			return page.Runs
		}
		for _, r := range list(carillon.RunQuery{}) {
			if r.Job == "never" {
				t.Errorf("calendars exclude all times, and a list has %+v", r)
			}
		}
		for _, name := range []string{"plain", "jittered", "long", "never"} {
			j, err := n.GetJob(ctx, carillon.Key{Namespace: "default", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			hold, next := j.Status.Hold, j.Status.NextRun
			if name == "never" {
				if !next.IsZero() || hold == nil || hold.Code != carillon.HoldNotDue || !hold.Until.IsZero() {
					t.Errorf("%s: next %v, %+v", name, next, hold)
				}
				continue
			}
			if !next.Equal(day) || hold == nil || hold.Code != carillon.HoldNotDue || hold.Until.Before(day) ||
				hold.Until.After(day.Add(30*time.Minute)) || name != "jittered" && !hold.Until.Equal(day) {
				t.Errorf("%s: next %v, %+v; want %v", name, next, hold, day)
			}
			for i, q := range []carillon.RunQuery{{}, {Job: name}} {
				found := 0
				for _, r := range list(q) {
					if r.Job == name {
						found++
						if !r.Scheduled.Equal(day) || !r.Due.Equal(hold.Until) {
							t.Errorf("%s, %d: %+v; want %v", name, i, r, hold.Until)
						}
					}
				}
				if found != 1 {
					t.Errorf("%s, %d: %d times", name, i, found)
				}
			}
		}
		if got := list(carillon.RunQuery{Until: day}); len(got) != 0 {
			t.Errorf("before the dates end: %+v", got)
		}
		if got := list(carillon.RunQuery{Until: day.Add(time.Hour)}); len(got) != 3 {
			t.Errorf("when the dates end: %+v", got)
		}
	})
}
