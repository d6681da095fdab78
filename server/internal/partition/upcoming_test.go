package partition_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// times are the next times of job a.
func (r *rig) times(n int) carillon.Timetable {
	r.t.Helper()
	r.bring(keyA)
	u, err := r.m.Jobs.Upcoming(keyA)
	if err != nil {
		r.t.Fatal(err)
	}
	return u.Times(r.now, carillon.TimesQuery{Count: n})
}

// TestTimesAreThoseThatRun asks for the next times of a random job in a random state, and then lets time go by:
// what runs then are those times, each when it is due, and nothing after the last one.
func TestTimesAreThoseThatRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := calendars{}
		r := newRig(rt, partition.Config{Calendars: c.find})
		// Clocks change in Europe on 2026-03-29, at 1 h UTC.
		r.now += int64(rapid.SampledFrom([]int{0, 86*24 + 12, 58 * 24}).Draw(rt, "begins")) * int64(time.Hour)
		c.put(rt, "off", draws(rt, int((r.now-epoch)/1e9))...)
		j := anyTimes(rt)
		if _, err := r.put(j); err != nil {
			if field := errorField(err); field != "ttl" && field != "schedule" && field != "jitter" { // it would never run, or move too far
				rt.Fatal(err)
			}
			return
		}
		r.flush()
		runs := r.anyState(rt)
		if !r.exists() {
			return
		}
		n := rapid.IntRange(1, 8).Draw(rt, "n")
		got := r.times(n)
		if len(got.Times) > n || (got.End == nil && len(got.Times) < n) {
			rt.Fatalf("%d of %d times, and no end", len(got.Times), n)
		}
		if e := got.Excluded; e != nil && (!excludedAt(c, int((e.At.UnixNano()-epoch)/1e9)) || !e.At.After(instant(r.now)) ||
			len(got.Times) > 0 && !e.At.Before(got.Times[0].Scheduled) || !slices.Equal(e.By, []string{"off"})) {
			rt.Fatalf("excluded: %+v", e)
		}
		waits := r.m.Records.Pending(keyA) // in memory, which is ahead of the store
		if now, err := r.m.Records.Job(keyA); err != nil {
			rt.Fatal(err)
		} else if now.Status.Current != nil {
			waits++
		}
		for _, d := range runs {
			if r.succeed(d) == partition.Accepted { // no other run has replaced it
				waits--
			}
		}
		r.flush()
		seen := r.drain()
		if len(seen) < waits {
			rt.Fatalf("%d run at once, and %d wait", len(seen), waits)
		}
		seen = seen[waits:]
		for i, p := range got.Times {
			if p.Past {
				if len(seen) == 0 || !seen[0].Equal(p.Scheduled) {
					rt.Fatalf("%d: %v is past, and %v run at once", i, p.Scheduled, seen)
				}
				seen = seen[1:]
				continue
			}
			r.advance(time.Duration(p.Due.UnixNano() - 1 - r.now))
			if early := r.drain(); len(early) > 0 {
				rt.Fatalf("%d: %v run before %v", i, early, p.Due)
			}
			r.advance(1)
			if ran := r.drain(); len(ran) != 1 || !ran[0].Equal(p.Scheduled) {
				rt.Fatalf("%d: at %v run %v, not %v", i, p.Due, ran, p.Scheduled)
			}
		}
		if got.End == nil {
			return
		}
		if len(seen) > 0 {
			rt.Fatalf("%v run at once, after the last time", seen)
		}
		r.advance(50 * time.Hour)
		if more := r.drain(); len(more) > 0 {
			rt.Fatalf("%v run after the end: %s", more, got.End.Text)
		}
	})
}

// TestWhyNoTimeFollows has each reason, at once and after the times that still come.
func TestWhyNoTimeFollows(t *testing.T) {
	for name, is := range map[string]struct {
		job     carillon.Job
		act     func(r *rig, c calendars)
		seconds []int
		code    string
		says    string
	}{
		"no end":     {job: carillon.Job{Schedule: "@every 10s"}, seconds: []int{10, 20, 30}},
		"three left": {job: carillon.Job{Schedule: "R3/PT10S"}, seconds: []int{10, 20, 30}, code: "repeats", says: "3 times"},
		"one left": {job: carillon.Job{Schedule: "@every 10s", Repeats: 2},
			act: func(r *rig, _ calendars) { r.advance(10 * time.Second); r.drain() }, seconds: []int{20}, code: "repeats", says: "2 times"},
		"triggers use none": {job: carillon.Job{Schedule: "R1/PT10S"}, act: func(r *rig, _ calendars) { r.trigger("a"); r.flush(); r.drain() },
			seconds: []int{10}, code: "repeats"},
		"none left": {job: carillon.Job{Schedule: "R1/PT10S"}, act: func(r *rig, _ calendars) { r.advance(10 * time.Second) }, code: "repeats"},
		"a life that ends": {job: carillon.Job{Schedule: "@every 10s", TTL: carillon.WhenText("25s")}, seconds: []int{10, 20},
			code: "ttl", says: "2026-01-01T00:00:25Z"},
		"a schedule that ends": {job: carillon.Job{Schedule: "0 0 1 1 1 * 2026"}, seconds: []int{3600}, code: "schedule"},
		"once":                 {job: carillon.Job{Due: carillon.WhenText("25s")}, seconds: []int{25}, code: "once"},
		"paused":               {job: carillon.Job{Schedule: "@every 10s"}, act: func(r *rig, _ calendars) { r.pause("a", true) }, code: "paused"},
		"excluded for ever": {job: carillon.Job{Schedule: "@every 10s", Calendars: carillon.CalendarRules{Except: []string{"off"}}},
			act: func(r *rig, c calendars) { c.always(r.t) }, code: "calendars"},
		"excluded until its life ends": {job: carillon.Job{Schedule: "@every 10s", TTL: carillon.WhenText("45s"),
			Calendars: carillon.CalendarRules{Except: []string{"off"}}},
			act: func(r *rig, c calendars) { c.put(r.t, "off", [2]int{15, 50}) }, seconds: []int{10}, code: "ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			c := calendars{}
			r := newRig(t, partition.Config{Calendars: c.find})
			is.job.Name = "a"
			r.mustPut(is.job)
			if is.act != nil {
				is.act(r, c)
			}
			got := r.times(3)
			var seconds []int
			for _, p := range got.Times {
				seconds = append(seconds, int((p.Scheduled.UnixNano()-epoch)/1e9))
			}
			end := got.End
			if end == nil {
				end = &carillon.TimesEnd{}
			}
			if !slices.Equal(seconds, is.seconds) || end.Code != is.code || !strings.Contains(end.Text, is.says) {
				t.Errorf("%v, then %+v; want %v, then %s", seconds, *end, is.seconds, is.code)
			}
		})
	}
}

// TestTimesMarkChangesOfClocks: in a zone, each time says its offset, and the first after a change by how much.
func TestTimesMarkChangesOfClocks(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.now += int64(86*24) * int64(time.Hour) // 2026-03-28
	r.mustPut(carillon.Job{Name: "a", Schedule: "30 9 * * *", TimeZone: "Europe/Berlin"})
	want := []struct{ offset, shift time.Duration }{{time.Hour, 0}, {2 * time.Hour, time.Hour}, {2 * time.Hour, 0}}
	for i, p := range r.times(3).Times {
		if p.Offset != want[i].offset || p.Shift != want[i].shift {
			t.Errorf("%v: %v, changed by %v", p.Scheduled, p.Offset, p.Shift)
		}
	}
}

// TestTimesUntil: no time at the bound or after it, and that is no end.
func TestTimesUntil(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	u, err := r.m.Jobs.Upcoming(keyA)
	if err != nil {
		t.Fatal(err)
	}
	got := u.Times(r.now, carillon.TimesQuery{Until: instant(epoch + 30e9)})
	if len(got.Times) != 2 || got.End != nil {
		t.Errorf("%+v", got)
	}
}

// TestExcludedTimesAreNamed: what would be next says which calendar leaves it out.
func TestExcludedTimesAreNamed(t *testing.T) {
	for _, only := range []bool{false, true} {
		c := calendars{}
		r := newRig(t, partition.Config{Calendars: c.find})
		c.put(t, "off", [2]int{5, 15})
		c.put(t, "other", [2]int{16, 50})
		rules, by := carillon.CalendarRules{Except: []string{"absent", "off"}}, []string{"off"}
		if only {
			rules, by = carillon.CalendarRules{Only: []string{"other"}}, nil
		}
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Calendars: rules})
		got := r.times(1)
		if e := got.Excluded; e == nil || e.At.UnixNano() != epoch+10e9 || !slices.Equal(e.By, by) {
			t.Errorf("%+v", e)
		}
		if len(got.Times) != 1 || got.Times[0].Scheduled.UnixNano() != epoch+20e9 {
			t.Errorf("%+v", got.Times)
		}
	}
}

// draws returns spans of a calendar that are drawn, in seconds.
func draws(rt *rapid.T, at int) (spans [][2]int) {
	for range rapid.IntRange(0, 3).Draw(rt, "spans") {
		at += rapid.SampledFrom([]int{5, 600, 7200, 90_000}).Draw(rt, "gap")
		end := at + rapid.SampledFrom([]int{15, 1800, 20_000, 200_000}).Draw(rt, "long")
		spans, at = append(spans, [2]int{at, end}), end
	}
	return spans
}

// anyTimes is a job whose times are drawn.
func anyTimes(rt *rapid.T) carillon.Job {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, label) }
	j := carillon.Job{Name: "a",
		Schedule: pick("schedule", "", "@every 10s", "*/7 * * * *", "30 2 * * *", "@hourly", "R4/PT15M", "R/P1M", "R2/PT20S",
			"@every 7h; 0 */8 * * *", "0 0 0 29 3 * 2026"),
		TimeZone: pick("zone", "", "Europe/Berlin"), Due: carillon.WhenText(pick("due", "", "", "25s", "40m")),
		TTL:     carillon.WhenText(pick("ttl", "", "", "1m", "3h")),
		Repeats: uint64(rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "repeats")),
		Jitter:  time.Duration(rapid.SampledFrom([]int{0, 0, 7, 300}).Draw(rt, "jitter")) * time.Second,
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")),
		Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt, "misfire"))},
		Lease:   168 * time.Hour, Timeout: 168 * time.Hour, History: carillon.History{Runs: 10_000},
	}
	if !j.Recurring() {
		j.Repeats, j.Overlap, j.Misfire, j.TimeZone = 0, 0, carillon.Misfire{}, ""
	} else {
		j.Calendars.DST = carillon.DST(rapid.IntRange(0, 1).Draw(rt, "dst"))
		if rapid.Bool().Draw(rt, "calendar") {
			j.Calendars.Except = []string{"off"}
		}
	}
	return j
}

func errorField(err error) string {
	e, _ := errors.AsType[*carillon.Error](err)
	return e.Field
}

// anyState lets some time pass in which runs end or do not, and returns the attempts in force.
func (r *rig) anyState(rt *rapid.T) (force []delivery.Delivery) {
	for range rapid.IntRange(0, 4).Draw(rt, "steps") {
		switch rapid.IntRange(0, 4).Draw(rt, "step") {
		case 0:
			r.drain()
		case 1:
			force = append(force, r.deliver(1)...)
			r.flush()
		case 2:
			if r.exists() && rapid.Bool().Draw(rt, "pause") {
				r.bring(keyA)
				r.pause("a", rapid.Bool().Draw(rt, "paused"))
				r.flush()
			}
		default:
			r.advance(time.Duration(rapid.SampledFrom([]int{1, 13, 900, 4000, 30_000}).Draw(rt, "goes")) * time.Second)
		}
	}
	return force
}

// drain runs all that is due, each at once to its success, and returns which times they were of.
func (r *rig) drain() (times []time.Time) {
	r.step()
	if r.m.Records.Has(store.Ref{Key: keyA}) || r.exists() {
		r.bring(keyA)
	}
	r.flush()
	for ds := r.deliver(1); len(ds) == 1; ds = r.deliver(1) {
		times = append(times, ds[0].Run.Scheduled)
		r.succeed(ds[0])
		r.flush()
	}
	return times
}
