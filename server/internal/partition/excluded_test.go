package partition_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// calendars are those of a rig, by name, which a test may change at any time.
type calendars map[string]*schedule.Dates

func (c calendars) find(_, name string) *schedule.Dates { return c[name] }

// put puts a calendar of spans of seconds since the epoch of the rig.
func (c calendars) put(t tb, name string, spans ...[2]int) {
	t.Helper()
	var texts []string
	for _, s := range spans {
		texts = append(texts, fmt.Sprintf("%s/%s", rfc(s[0]), rfc(s[1])))
	}
	d, _, err := schedule.ParseDates(texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	c[name] = d
}

// always has the calendar off have every day of every year.
func (c calendars) always(t tb) {
	t.Helper()
	d, _, err := schedule.ParseDates([]string{"01-01/12-31"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c["off"] = d
}

func rfc(second int) string {
	return instant(epoch + int64(second)*int64(time.Second)).Format(time.RFC3339)
}

// excluding is a job that runs every ten seconds, except in the calendar off.
func excluding(j carillon.Job) carillon.Job {
	j.Name, j.Schedule, j.Calendars.Except = "a", "@every 10s", []string{"off"}
	return j
}

// newCalendarRig is a rig with the calendar off.
func newCalendarRig(t tb, spans ...[2]int) (*rig, calendars) {
	c := calendars{}
	c.put(t, "off", spans...)
	return newRig(t, partition.Config{Calendars: c.find}), c
}

// nextSecond is the next time of job a as callers see it, in seconds since the epoch; -1 if there is none.
func (r *rig) nextSecond() int {
	r.bring(keyOf("a"))
	j, err := r.m.Records.Job(keyOf("a"))
	if err != nil {
		r.t.Fatal(err)
	}
	if j.Status.NextRun.IsZero() {
		return -1
	}
	return int((j.Status.NextRun.UnixNano() - epoch) / 1e9)
}

// TestExcludedTimesDoNotRun walks through a calendar in which 20 s to 40 s are off.
func TestExcludedTimesDoNotRun(t *testing.T) {
	r, _ := newCalendarRig(t, [2]int{20, 41})
	r.mustPut(excluding(carillon.Job{Repeats: 3}))
	if got := r.nextSecond(); got != 10 {
		t.Errorf("next is %d s", got)
	}
	r.advance(10 * time.Second)
	if got := r.workOff(); !slices.Equal(got, []int{10}) || r.nextSecond() != 50 {
		t.Errorf("it ran %v, next is %d s", got, r.nextSecond())
	}
	if len(r.history("a")) != 1 {
		t.Errorf("times are passed over before they are due: %+v", r.history("a"))
	}
	r.advance(10 * time.Second)
	if got := r.workOff(); len(got) != 0 || r.nextSecond() != 50 {
		t.Errorf("it ran %v, next is %d s", got, r.nextSecond())
	}
	r.advance(60 * time.Second)
	if got := r.workOff(); !slices.Equal(got, []int{50, 80}) {
		t.Errorf("it ran %v", got)
	}
	skipped := slices.DeleteFunc(r.history("a"), func(h store.RunRecord) bool { return h.Status != carillon.RunSkipped })
	slices.Reverse(skipped)
	if len(skipped) != 2 || skipped[0].Reason != partition.ReasonCalendar || skipped[0].Skipped != 3 ||
		secondOf(skipped[0].From) != 20 || secondOf(skipped[0].Due) != 40 {
		t.Errorf("records of what did not run: %+v", skipped)
	}
	accounted(t, r, "a", 10*time.Second, 8)
}

func secondOf(ns int64) int { return int((ns - epoch) / 1e9) }

func second64(t time.Time) int { return secondOf(t.UnixNano()) }

// TestALongStretchIsPassedOverInSteps has 2.5 hours off, of which a step passes over one.
func TestALongStretchIsPassedOverInSteps(t *testing.T) {
	r, c := newCalendarRig(t, [2]int{15, 9000})
	r.mustPut(excluding(carillon.Job{}))
	r.advance(10 * time.Second)
	r.workOff()
	for range 9000/10 - 1 {
		r.advance(10 * time.Second)
	}
	if got := r.workOff(); !slices.Equal(got, []int{9000}) {
		t.Errorf("it ran %v", got)
	}
	if n := r.passedOver("a"); n["calendar"] != 898 || len(r.history("a")) != 3+2 {
		t.Errorf("%v did not run, in %d records", n, len(r.history("a")))
	}
	// A calendar that changes holds for what has not been passed over.
	c.put(t, "off", [2]int{9010, 20000})
	r.advance(20 * time.Second)
	c.put(t, "off")
	r.advance(2 * time.Hour)
	if got := r.workOff(); len(got) != 1 || secondOf(r.history("a")[1].From) != 9010+3610 {
		t.Errorf("it ran %v; %+v", got, r.history("a")[:3])
	}
}

// TestMisfireLeavesOutExcludedTimes has every other time from 20 s on off, and an outage until 68 s.
func TestMisfireLeavesOutExcludedTimes(t *testing.T) {
	off := [][2]int{{20, 21}, {40, 41}, {60, 61}}
	for name, c := range map[string]struct {
		job               carillon.Job
		want              []int
		misfire, calendar uint64
	}{
		"all": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, []int{10, 30, 50}, 0, 3},
		"limit": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 2}},
			[]int{30, 50}, 1, 3},
		"window": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Window: 20 * time.Second}},
			[]int{50}, 2, 3},
		"latest":  {carillon.Job{}, []int{50}, 2, 3},
		"skip":    {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}}, nil, 3, 3},
		"repeats": {carillon.Job{Repeats: 2, Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, []int{10, 30}, 0, 1},
		"life": {carillon.Job{TTL: carillon.In(45 * time.Second),
			Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, []int{10, 30}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newCalendarRig(t, off...)
			r.mustPut(excluding(c.job))
			r.now += int64(68 * time.Second) // everything is down
			r.start()
			r.flush()
			if got := r.workOff(); !slices.Equal(got, c.want) {
				t.Errorf("it ran %v, want %v", got, c.want)
			}
			want := map[string]uint64{"misfire": c.misfire, "calendar": c.calendar}
			maps.DeleteFunc(want, func(_ string, n uint64) bool { return n == 0 })
			if n := r.passedOver("a"); !maps.Equal(n, want) {
				t.Errorf("%v did not run, want %v", n, want)
			}
		})
	}
}

// TestOverlapAndExcludedTimes: a run goes on from 10 s to 58 s, and 20 s to 40 s are off.
func TestOverlapAndExcludedTimes(t *testing.T) {
	for name, c := range map[string]struct {
		rule    carillon.Overlap
		during  int // runs in force at 45 s
		skipped map[string]uint64
	}{
		"serial":  {carillon.OverlapSerial, 1, map[string]uint64{"calendar": 3}},
		"skip":    {carillon.OverlapSkip, 1, map[string]uint64{"calendar": 3, "overlap": 1}},
		"allow":   {carillon.OverlapAllow, 1, map[string]uint64{"calendar": 3}},
		"replace": {carillon.OverlapReplace, 1, map[string]uint64{"calendar": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := newCalendarRig(t, [2]int{20, 41})
			r.mustPut(excluding(carillon.Job{Overlap: c.rule, Lease: time.Hour}))
			r.advance(10 * time.Second)
			first := r.deliver(1)
			for range 35 {
				r.advance(time.Second)
			}
			if n := r.m.Stats().InFlight; n != c.during {
				t.Errorf("%d runs go on", n)
			}
			for range 13 {
				r.advance(time.Second)
			}
			if c.rule != carillon.OverlapReplace {
				r.succeed(first[0])
			}
			r.flush()
			r.advance(0)
			r.workOff()
			if n := r.passedOver("a"); !maps.Equal(n, c.skipped) {
				t.Errorf("%v did not run, want %v", n, c.skipped)
			}
		})
	}
}

// TestPauseAndExcludedTimes: the job is paused from 5 s to 48 s, and 20 s and 30 s are off.
func TestPauseAndExcludedTimes(t *testing.T) {
	for catchUp, want := range map[bool]map[string]uint64{false: {"calendar": 2, "paused": 2}, true: {"calendar": 2, "misfire": 1}} {
		r, _ := newCalendarRig(t, [2]int{20, 31})
		r.mustPut(excluding(carillon.Job{}))
		r.advance(5 * time.Second)
		r.pause("a", true)
		r.advance(43 * time.Second)
		r.bring(keyOf("a"))
		if _, err := r.m.Jobs.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{CatchUp: catchUp}); err != nil {
			t.Fatal(err)
		}
		r.flush()
		r.start()
		r.workOff()
		if n := r.passedOver("a"); !maps.Equal(n, want) {
			t.Errorf("caught up: %v; %v did not run, want %v", catchUp, n, want)
		}
	}
}

func TestSkipPassesOverExcludedTimes(t *testing.T) {
	r, c := newCalendarRig(t, [2]int{10, 31})
	r.mustPut(excluding(carillon.Job{}))
	s, err := r.m.Jobs.Skip(r.now, keyOf("a"))
	r.flush()
	if err != nil || second64(s.Time) != 40 || second64(s.Job.Status.NextRun) != 50 {
		t.Errorf("skipped %v, %v", s, err)
	}
	if n := r.passedOver("a"); !maps.Equal(n, map[string]uint64{"calendar": 3, "skipped": 1}) {
		t.Errorf("%v did not run", n)
	}
	c.always(t)
	if _, err := r.m.Jobs.Skip(r.now, keyOf("a")); err == nil {
		t.Error("a time without end was skipped")
	}
	if r.nextSecond() != -1 {
		t.Errorf("next is %d s", r.nextSecond())
	}
}

// TestATriggerIgnoresCalendars, and a calendar that does not exist excludes nothing.
func TestATriggerIgnoresCalendars(t *testing.T) {
	r, c := newCalendarRig(t)
	c.always(t)
	r.mustPut(excluding(carillon.Job{}))
	if _, err := r.m.Jobs.Trigger(r.now, keyOf("a"), carillon.TriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if got := r.workOff(); !slices.Equal(got, []int{0}) {
		t.Errorf("it ran %v", got)
	}
	delete(c, "off")
	r.advance(10 * time.Second)
	if got := r.workOff(); !slices.Equal(got, []int{10}) {
		t.Errorf("without its calendar it ran %v", got)
	}
}

// TestOnlyCalendars: only times in one of two calendars run. One that does not exist does not count.
func TestOnlyCalendars(t *testing.T) {
	r, c := newCalendarRig(t, [2]int{30, 31})
	c.put(t, "on", [2]int{20, 21}, [2]int{30, 31})
	c.put(t, "also", [2]int{50, 51})
	j := excluding(carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}})
	j.Calendars.Only = []string{"on", "also", "missing"}
	r.mustPut(j)
	if got := r.nextSecond(); got != 20 {
		t.Errorf("next is %d s", got)
	}
	for range 6 {
		r.advance(10 * time.Second)
	}
	if got := r.workOff(); !slices.Equal(got, []int{20, 50}) {
		t.Errorf("it ran %v", got)
	}
	delete(c, "on")
	delete(c, "also")
	r.advance(2 * time.Hour)
	r.advance(10 * time.Second)
	if got := r.workOff(); len(got) == 0 {
		t.Error("it runs no more, though none of its calendars exists")
	}
}

// TestNothingIsAwaitedAtAnExcludedTime: a job that depends on another passes over it.
func TestNothingIsAwaitedAtAnExcludedTime(t *testing.T) {
	r, _ := newCalendarRig(t, [2]int{10, 21})
	r.mustPut(carillon.Job{Name: "b", Schedule: "@yearly"})
	r.mustPut(excluding(carillon.Job{DependsOn: []string{"b"}}))
	r.advance(10 * time.Second)
	r.bring(keyOf("a"))
	j, err := r.m.Records.Job(keyOf("a"))
	if err != nil || j.Status.Phase != carillon.PhaseScheduled || second64(j.Status.NextRun) != 30 {
		t.Errorf("%v, %v", j.Status, err)
	}
	r.advance(20 * time.Second)
	r.bring(keyOf("a"))
	if j, _ = r.m.Records.Job(keyOf("a")); j.Status.Phase != carillon.PhaseWaiting {
		t.Errorf("%v", j.Status.Phase)
	}
}

// TestTheScheduledTimeDecides, before jitter: 10 s is off until 10.5 s, and the run of 10 s is due later.
func TestTheScheduledTimeDecides(t *testing.T) {
	r, _ := newCalendarRig(t, [2]int{10, 11})
	r.mustPut(excluding(carillon.Job{Jitter: 9 * time.Second}))
	r.advance(39 * time.Second)
	got := r.workOff()
	if slices.Contains(got, 10) || len(got) == 0 || r.passedOver("a")["calendar"] != 1 {
		t.Errorf("it ran %v, %v did not", got, r.passedOver("a"))
	}
}

// TestABackfillHonoursCalendars, as they are when its runs are made.
func TestABackfillHonoursCalendars(t *testing.T) {
	r, c := newCalendarRig(t, [2]int{20, 41})
	j := excluding(carillon.Job{Paused: true})
	r.mustPut(j)
	r.advance(100 * time.Second)
	b, err := r.backfill("a", carillon.BackfillSpec{From: instant(epoch + 10e9), To: instant(epoch + 100e9)})
	if err != nil || b.Total != 7 || second64(b.Next) != 10 {
		t.Fatalf("%+v, %v", b, err)
	}
	r.flush()
	c.put(t, "off", [2]int{20, 31}, [2]int{90, 101})
	got := r.workOff()
	for len(got) < 6 {
		r.advance(time.Second)
		more := r.workOff()
		if len(more) == 0 {
			break
		}
		got = append(got, more...)
	}
	r.advance(time.Second)
	if !slices.Equal(got, []int{10, 40, 50, 60, 70, 80}) {
		t.Errorf("it ran %v", got)
	}
	if b, ok := r.look(b.ID); !ok || b.Status != carillon.BackfillDone || b.Total != 6 || b.Succeeded != 6 {
		t.Errorf("%+v", b)
	}
	c.put(t, "off", [2]int{0, 200})
	if _, err := r.backfill("a", carillon.BackfillSpec{From: instant(epoch + 10e9), To: instant(epoch + 100e9)}); err == nil {
		t.Error("a backfill of nothing was started")
	}
}

// TestABackfillOfRepeatsEndsWithThem, whatever calendars leave out.
func TestABackfillOfRepeatsEndsWithThem(t *testing.T) {
	r, _ := newCalendarRig(t, [2]int{20, 31})
	j := excluding(carillon.Job{Paused: true})
	j.Schedule = "R5/PT10S"
	j.Due = carillon.At(instant(epoch + 10e9))
	r.mustPut(j)
	r.advance(100 * time.Second)
	b, err := r.backfill("a", carillon.BackfillSpec{From: instant(epoch), To: instant(epoch + 100e9)})
	if err != nil || b.Total != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	r.flush()
	var got []int
	for range 10 {
		r.advance(time.Second)
		got = append(got, r.workOff()...)
	}
	if !slices.Equal(got, []int{10, 40, 50}) {
		t.Errorf("it ran %v", got)
	}
}
