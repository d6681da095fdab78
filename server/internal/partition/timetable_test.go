package partition

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
)

// everyTen is the timetable of a job that runs every ten seconds from 10 s on, owned from the start on.
func everyTen(t *testing.T, j carillon.Job) timetable {
	t.Helper()
	j.Schedule = "@every 10s"
	sched, err := j.ParseSchedule()
	if err != nil {
		t.Fatal(err)
	}
	return timetable{job: &j, sched: sched, s: &store.State{Anchor: sec(10), Next: sec(10)}}
}

// skips are n skipped times, from a first to a last second.
func skips(first, last int64, n uint64, reason string) skipped {
	return skipped{times: times{sec(first), sec(last), n}, reason: reason}
}

func sec(n int64) int64 { return n * int64(time.Second) }

func TestNextStaysWithinLifeAndRepeats(t *testing.T) {
	p := everyTen(t, carillon.Job{Repeats: 2})
	if got := p.next(sec(10)); got != sec(20) {
		t.Errorf("after 10 s it is %d", got)
	}
	p.s.Expires = sec(20)
	if got := p.next(sec(20)); got != 0 {
		t.Errorf("after its life it is %d", got)
	}
	p.s.Expires = 0
	p.begin(sec(10))
	if p.s.Begun != 1 || p.s.Next != sec(20) {
		t.Errorf("after the first run: %d begun, next %d", p.s.Begun, p.s.Next)
	}
	p.begin(sec(20))
	if p.s.Next != 0 || !p.spent() {
		t.Errorf("after the last run: next %d", p.s.Next)
	}
}

func TestJitterEndsBeforeTheNextTime(t *testing.T) {
	p := everyTen(t, carillon.Job{})
	p.s.Jitter = sec(60)
	moved := false
	for i := int64(1); i <= 100; i++ {
		by := p.jitter(sec(10 * i))
		if by < 0 || by >= sec(10) || by != p.jitter(sec(10*i)) {
			t.Fatalf("the run of %d s is moved by %d", 10*i, by)
		}
		moved = moved || by > 0
	}
	if !moved {
		t.Fatal("no run is moved")
	}
}

func TestTheNewestDueTime(t *testing.T) {
	p := everyTen(t, carillon.Job{})
	for _, c := range []struct{ now, expires, want int64 }{{10, 0, 10}, {19, 0, 10}, {20, 0, 20},
		{99, 0, 90}, {99, 55, 50}} {
		p.s.Expires = sec(c.expires)
		if got := p.newestDue(sec(c.now)); got != sec(c.want) {
			t.Errorf("at %d s, with a life until %d s, it is %d, want %d s", c.now, c.expires, got, c.want)
		}
	}
}

func TestSkippedTimesAreCounted(t *testing.T) {
	p := everyTen(t, carillon.Job{})
	if got := p.skip(sec(10), sec(50), "why"); got != (skips(10, 50, 5, "why")) {
		t.Errorf("from 10 s to 50 s: %+v", got)
	}
	if got := p.skipLife("why"); got != (skipped{}) {
		t.Errorf("a life without end: %+v", got)
	}
	p.s.Expires = sec(35)
	if got := p.skipLife("why"); got != (skips(10, 30, 3, "why")) {
		t.Errorf("a life until 35 s: %+v", got)
	}
	p.sched = nil
	if got := p.skipLife("why"); got != (skips(10, 10, 1, "why")) {
		t.Errorf("of a one-shot: %+v", got)
	}
}

func TestAJobWentOnPastItsRun(t *testing.T) {
	for name, c := range map[string]struct {
		run, next, last int64
		beside, want    bool
	}{
		"the next time is the one after": {10, 20, 0, false, false},
		"a later time has begun":         {10, 30, 0, false, true},
		"of an earlier schedule":         {13, 20, 0, false, true},
		"the last time":                  {10, 0, 0, false, false},
		"a later run has ended":          {10, 0, 20, false, true},
		"a later run goes on":            {10, 0, 0, true, true},
	} {
		p := everyTen(t, carillon.Job{})
		p.s.Run.Scheduled, p.s.Next, p.s.Last.Scheduled = sec(c.run), sec(c.next), sec(c.last)
		if got := p.wentOn(c.beside); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestMisfireRulesOnPlans: five times are due at 52 s, and nobody owned the partition.
func TestMisfireRulesOnPlans(t *testing.T) {
	all, none, latest := skipped{}, skips(10, 50, 5, ReasonMisfire), skips(10, 40, 4, ReasonMisfire)
	for name, c := range map[string]struct {
		job   carillon.Job
		since int64
		want  choice
	}{
		"latest":          {carillon.Job{}, 51, choice{sec(50), latest}},
		"latest, too old": {carillon.Job{Misfire: carillon.Misfire{Window: time.Second}}, 51, choice{0, none}},
		"all": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}}, 51,
			choice{sec(10), all}},
		"all, limited": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 1}}, 51,
			choice{sec(50), latest}},
		"all, replacing": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll},
			Overlap: carillon.OverlapReplace},
			51, choice{sec(50), skips(10, 40, 4, ReasonOverlap)}},
		"skip, owned by now": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}}, 45,
			choice{sec(50), latest}},
		"skip, missed": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}}, 57, choice{0, none}},
	} {
		p := everyTen(t, c.job)
		p.since = sec(c.since)
		if got := p.choose(max(sec(52), p.since)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestTimesOfAPartitionWithoutAnOwner leave out what its next owner will find missed.
func TestTimesOfAPartitionWithoutAnOwner(t *testing.T) {
	p := everyTen(t, carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}})
	calendars := func(string, string) *schedule.Dates { return nil }
	now := sec(57) // five times were due, the last one 7 s ago
	got := StoredUpcoming(p.job, p.s, now, calendars).Times(now, carillon.TimesQuery{Count: 1})
	if len(got.Times) != 1 || got.Times[0].Past || !got.Times[0].Scheduled.Equal(toTime(sec(60))) {
		t.Errorf("%+v", got.Times)
	}
}

func TestRetimeNeverRunsATimeTwice(t *testing.T) {
	never := func(int64) bool { return false }
	p := everyTen(t, carillon.Job{})
	p.s.Run = store.RunState{Live: true, Scheduled: sec(10), Cause: carillon.CauseSchedule}
	if p.retime(sec(5), 0, false, never) || p.s.Next != sec(20) || p.s.Begun != 1 {
		t.Errorf("a recurring job whose run goes on: next %d, begun %d", p.s.Next, p.s.Begun)
	}
	p = everyTen(t, carillon.Job{})
	if p.retime(sec(15), 0, false, func(at int64) bool { return at == sec(10) }) || p.s.Next != sec(20) {
		t.Errorf("a time that a pending run has: next %d", p.s.Next)
	}
	once := timetable{job: &carillon.Job{}, s: &store.State{Next: sec(30)}}
	once.s.Run = store.RunState{Live: true, Scheduled: sec(30), Cause: carillon.CauseSchedule}
	if once.retime(sec(40), 0, false, never) || once.s.Next != 0 {
		t.Errorf("a one-shot at the same instant: next %d", once.s.Next)
	}
	once.s.Next = sec(60)
	if !once.retime(sec(40), 0, false, never) || once.s.Next != sec(60) {
		t.Errorf("a one-shot at another instant: next %d", once.s.Next)
	}
}
