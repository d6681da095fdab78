package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// timeline is a world with one recurring job that is never edited. It follows what becomes of each scheduled
// time.
type timeline struct {
	*world
	job   carillon.Job
	every time.Duration
}

func newTimeline(rt *rapid.T) *timeline {
	every := time.Duration(rapid.IntRange(1, 10).Draw(rt, "every")) * time.Second
	l := &timeline{every: every, job: carillon.Job{
		Name: "a", Schedule: "@every " + every.String(), Lease: 5 * time.Second,
		History: carillon.History{Runs: 10_000},
		Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt, "misfire"))},
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")),
		Jitter:  every * time.Duration(rapid.IntRange(0, 1).Draw(rt, "jitter")),
		Repeats: uint64(rapid.SampledFrom([]int{0, 0, 1, 4, 9}).Draw(rt, "repeats")),
	}}
	switch rapid.IntRange(0, 3).Draw(rt, "policy") {
	case 0:
		l.job.FailurePolicy = carillon.Constant(3 * time.Second).WithMaxRetries(2)
	case 1:
		l.job.FailurePolicy = carillon.Drop()
	}
	if rapid.IntRange(0, 3).Draw(rt, "limited") == 0 {
		l.job.TTL = carillon.In(time.Minute)
	}
	if rapid.IntRange(0, 3).Draw(rt, "windowed") == 0 {
		l.job.Misfire.Window, l.job.Misfire.Limit = 3*every, 2
	}
	if rapid.Bool().Draw(rt, "large") { // so that memory may hold the job without its spec
		l.job.Data.Bytes = make([]byte, 2<<10)
	}
	l.world = &world{rt: rt, done: map[string]bool{}, tokens: map[string]int{}, oneShots: map[string]string{},
		rig: newRig(rt, partition.Config{WindowJobs: rapid.SampledFrom([]int{2, 64}).Draw(rt, "window")})}
	l.mustPut(l.job)
	return l
}

func (l *timeline) Deliver(rt *rapid.T) {
	l.recall()
	for _, d := range l.deliver(rapid.IntRange(1, 4).Draw(rt, "n")) {
		l.hand(d)
	}
}

// hand checks one delivery.
func (l *timeline) hand(d delivery.Delivery) {
	l.got(d)
	if d.Run.Cause != carillon.CauseSchedule || l.job.Overlap == carillon.OverlapAllow {
		return
	}
	for _, other := range l.inForce {
		id, err := store.ParseRunID(other.Run.ID)
		if err != nil {
			l.t.Fatal(err)
		}
		r, ok := l.m.Records.Run(id)
		if ok && r.ID != d.Run.ID && r.Cause == carillon.CauseSchedule && r.Status == carillon.RunRunning {
			l.t.Fatalf("the run of %v is handed out while that of %v is in force", d.Run.Scheduled, r.Scheduled)
		}
	}
}

func (l *timeline) maybeCommit(rt *rapid.T) {
	switch rapid.IntRange(0, 3).Draw(rt, "commit") {
	case 0: // later
	case 1:
		l.step()
		l.take() // on its way
	default:
		l.commit()
	}
}

func (l *timeline) Report(rt *rapid.T) {
	if len(l.inForce) == 0 {
		return
	}
	i := rapid.IntRange(0, len(l.inForce)-1).Draw(rt, "which")
	d := l.inForce[i]
	if rapid.IntRange(0, 4).Draw(rt, "keep") > 0 {
		l.inForce = append(l.inForce[:i:i], l.inForce[i+1:]...)
	}
	switch rapid.IntRange(0, 5).Draw(rt, "outcome") {
	case 0:
		l.report(d, carillon.Result{Outcome: carillon.OutcomeProgress,
			Progress: carillon.Progress{Percent: 50, Message: "half"}})
		l.inForce = append(l.inForce, d)
	case 1:
		at := time.Unix(0, l.now).Add(time.Duration(rapid.IntRange(-5, 30).Draw(rt, "later")) * time.Second)
		res := carillon.Result{Outcome: carillon.OutcomeReschedule, At: at}
		if v := l.report(d, res); l.report(d, res) != v {
			rt.Fatalf("a reschedule told twice is answered %v first", v)
		}
	case 2:
		l.tell(d, false)
	default:
		l.tell(d, true)
	}
	l.maybeCommit(rt)
}

func (l *timeline) Pause(rt *rapid.T) {
	l.whole(keyOf("a"))
	_, _ = l.m.Jobs.SetPaused(l.now, keyOf("a"), carillon.PauseOptions{ // it may be gone
		Paused: rapid.Bool().Draw(rt, "paused"), CatchUp: rapid.Bool().Draw(rt, "catch up")})
	l.maybeCommit(rt)
}

func (l *timeline) Skip(rt *rapid.T) {
	l.whole(keyOf("a"))
	_, _ = l.m.Jobs.Skip(l.now, keyOf("a")) // it may be gone
	l.maybeCommit(rt)
}

func (l *timeline) Trigger(rt *rapid.T) {
	l.bring(keyOf("a"))
	_, _ = l.m.Jobs.Trigger(l.now, keyOf("a"), carillon.TriggerOptions{}) // it may be gone
	l.maybeCommit(rt)
}

func (l *timeline) Outage(rt *rapid.T) {
	l.now += int64(time.Duration(rapid.IntRange(1, 60).Draw(rt, "down")) * time.Second)
	l.Crash(rt)
}

func (l *timeline) Cancel(rt *rapid.T) {
	if len(l.inForce) == 0 {
		return
	}
	id, err := store.ParseRunID(rapid.SampledFrom(l.inForce).Draw(rt, "run").Run.ID)
	if err != nil {
		rt.Fatal(err)
	}
	l.m.Jobs.Cancel(l.now, id)
	l.maybeCommit(rt)
}

// Undeliver hands out a run and withdraws it.
func (l *timeline) Undeliver(rt *rapid.T) {
	for _, d := range l.deliver(1) {
		tok, err := message.ParseToken(d.Run.Token, l.store.Meta().MACKey)
		if err != nil {
			rt.Fatal(err)
		}
		l.m.Attempts.Undelivered(l.now, tok)
	}
}

// endless reports whether the schedule never ends.
func (l *timeline) endless() bool { return l.job.Repeats == 0 && l.job.TTL.IsZero() }

// settle lets everything end that can; a job without an end goes on. A run is put off by at most half a
// minute.
func (l *timeline) settle() {
	l.commit()
	l.bring(keyOf("a"))
	_, _ = l.m.Jobs.SetPaused(l.now, keyOf("a"), carillon.PauseOptions{}) // it may be gone
	for idle, until := 0, l.now+int64(time.Minute); ; {
		l.commit()
		l.recall()
		ds := l.deliver(100)
		for _, d := range ds {
			l.hand(d)
			l.tell(d, true)
		}
		switch l.commit(); {
		case len(ds) > 0:
		case idle >= 40 && l.now > until && (l.endless() || len(l.jobs()) == 0), idle == 400:
			return
		default:
			idle++
			l.advance(l.every / 2)
		}
	}
}

// check compares what became of the scheduled times with the rules.
func (l *timeline) check(rt *rapid.T) {
	began := uint64(0) // runs that a crash took away within their first second begin again
	for _, h := range l.history("a") {
		if h.ID.Cause == carillon.CauseSchedule && h.Skipped == 0 &&
			(h.Attempt > 0 || h.Status == carillon.RunCancelled) {
			began++
		}
	}
	if l.job.Repeats != 0 && began > l.job.Repeats {
		rt.Fatalf("%d runs of %d", began, l.job.Repeats)
	}
	upTo := int64(0) // times that have passed
	l.bring(keyOf("a"))
	j, err := l.m.Records.Job(keyOf("a"))
	switch {
	case err == nil && !l.endless():
		rt.Fatalf("the job goes on: %+v", j.Status)
	case err == nil && j.Status.Current == nil:
		upTo = j.Status.NextRun.UnixNano() - int64(l.every)
	case err == nil:
		rt.Fatalf("still going: %+v", j.Status.Current)
	case l.endless():
		rt.Fatal("the job is gone")
	case l.job.Repeats == 0:
		upTo = epoch + int64(time.Minute)
	default: // the last time of which anything is known: everything before it must be known, too
		for _, h := range l.history("a") {
			if h.ID.Cause == carillon.CauseSchedule {
				upTo = max(upTo, h.ID.Scheduled)
			}
		}
	}
	accounted(rt, l.rig, "a", l.every, int((upTo-epoch)/int64(l.every)))
	if err == nil {
		l.ended(rt, j)
		if _, err := l.m.Jobs.Delete(l.now, keyOf("a")); err != nil {
			rt.Fatal(err)
		}
	}
	l.commit()
	l.recall() // records of queues in which nothing is parked
	l.commit()
	l.nothingLeft()
}

// ended compares the counters with the history, which is complete.
func (l *timeline) ended(rt *rapid.T, j carillon.Job) {
	var want carillon.Counters
	for _, h := range l.history("a") {
		switch h.Status {
		case carillon.RunSucceeded:
			want.Succeeded++
		case carillon.RunSkipped:
			want.Skipped += max(1, h.Skipped)
		}
		if h.Attempt > 0 {
			want.Fired++
		}
	}
	c := j.Status.Counters
	if l.crashes == 0 && (c.Fired != want.Fired || c.Succeeded != want.Succeeded) || c.Skipped != want.Skipped {
		rt.Fatalf("counters %+v, history says %+v", c, want)
	}
}

// TestEveryTimeRunsOrSaysWhyNot sends one recurring job, under every overlap and misfire rule, through
// everything that can come between, restarts included. Each of its times has run or has a record that says
// why not, and none has both.
func TestEveryTimeRunsOrSaysWhyNot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newTimeline(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"advance": l.Advance, "deliver": l.Deliver, "report": l.Report, "stage": l.Stage, "crash": l.Crash,
			"outage": l.Outage, "pause": l.Pause, "skip": l.Skip, "trigger": l.Trigger, "cancel": l.Cancel,
			"undeliver": l.Undeliver,
		})
		l.settle()
		l.check(rt)
	})
}
