package partition_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// backfills is the records of backfills whose key begins with the prefix.
func (r *rig) backfills(prefix string) []store.MetaRecord {
	records, err := r.shard.MetaRecords(context.Background(),
		store.MetaQuery{Kind: store.KindBackfill, Prefix: prefix, Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return records
}

// backfill starts a backfill of a job.
func (r *rig) backfill(name string, spec carillon.BackfillSpec) (carillon.Backfill, error) {
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
	r.bring(key)
	basis, err := r.m.BackfillRuns.Basis(key)
	if err != nil {
		return carillon.Backfill{}, err
	}
	plan, err := partition.PlanBackfill(basis, r.m.BackfillRuns.Filter(keyOf(name)), spec)
	if err != nil {
		return carillon.Backfill{}, err
	}
	b, ok, err := r.m.BackfillRuns.Start(r.now, key, spec, plan)
	if err == nil && !ok {
		r.t.Fatal("the plan is out of date at once")
	}
	return b, err
}

func (r *rig) mustBackfill(name string, spec carillon.BackfillSpec) carillon.Backfill {
	r.t.Helper()
	b, err := r.backfill(name, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// look returns a backfill, from memory or from the store.
func (r *rig) look(id string) (carillon.Backfill, bool) {
	bid, err := store.ParseRunID(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if b, ok := r.m.Backfills.Get(bid); ok {
		return b, true
	}
	ended := r.backfills(partition.EndedBackfill(bid))
	if len(ended) == 0 {
		return carillon.Backfill{}, false
	}
	rec, err := codec.DecodeBackfill(ended[0].Value)
	if err != nil {
		r.t.Fatal(err)
	}
	return partition.BackfillOf(&rec, 0), true
}

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// filling is a world with one job and one backfill of that job.
type filling struct {
	*world
	spec      carillon.BackfillSpec
	key       carillon.Key
	id        string
	times     []int64         // the times that must run, by arithmetic
	made      map[int64]int64 // when each delivered run was made, by scheduled time
	finite    bool            // the job ends by itself
	cancelled bool            // durably
	deleted   bool            // durably
}

func newFilling(rt *rapid.T) *filling {
	window := rapid.SampledFrom([]int{4, 64, 4096}).Draw(rt, "window")
	w := &world{rig: newRig(rt, partition.Config{WindowJobs: window}), rt: rt, done: map[string]bool{},
		tokens: map[string]int{}, oneShots: map[string]string{}}
	f := &filling{world: w, key: carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"},
		made: map[int64]int64{}}
	period := int64(rapid.SampledFrom([]int{60, 300, 3600}).Draw(rt, "period")) * int64(time.Second)
	schedules := []string{
		fmt.Sprintf("@every %ds", period/1e9), fmt.Sprintf("R/PT%dS", period/1e9),
		fmt.Sprintf("R12/PT%dS", period/1e9),
		map[int64]string{60e9: "0 * * * * *", 300e9: "0 */5 * * * *", 3600e9: "@hourly"}[period],
		fmt.Sprintf("@every %ds; @every %ds", 3*period/1e9, period/1e9),
	}
	kind := rapid.IntRange(0, 4).Draw(rt, "kind")
	f.finite = kind == 2
	j := carillon.Job{Name: "a", Schedule: schedules[kind], History: carillon.History{Runs: 10_000},
		Lease: 5 * time.Second, Paused: rapid.Bool().Draw(rt, "paused"),
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap"))}
	if rapid.Bool().Draw(rt, "dead") {
		j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(1)
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	}
	w.mustPut(j)
	w.advance(time.Duration(rapid.IntRange(0, 20).Draw(rt, "age")) * time.Duration(period))
	to := w.now - int64(rapid.IntRange(0, 3).Draw(rt, "to"))*period/2
	from := to - int64(rapid.IntRange(0, 40).Draw(rt, "length"))*period/2
	f.spec = carillon.BackfillSpec{From: instant(from), To: instant(to)}
	if rapid.Bool().Draw(rt, "allow") {
		f.spec.Overlap = carillon.OverlapAllow
	}
	f.spec.Rate = rapid.SampledFrom([]float64{0, 0, 0.5, 3, 1000}).Draw(rt, "rate")
	for k := int64(-100); k <= 100; k++ { // the schedules' times are the epoch and whole periods from it
		t := epoch + k*period
		late := kind == 2 && k >= 12
		early := (kind == 1 || kind == 2) && k < 0
		if from <= t && t <= to && !late && !early {
			f.times = append(f.times, t)
		}
	}
	return f
}

func (f *filling) begin() {
	b, err := f.backfill("a", f.spec)
	if len(f.times) == 0 {
		if !errors.Is(err, carillon.InvalidArgument) {
			f.t.Fatalf("a stretch without times: %v", err)
		}
		return
	}
	if err != nil || b.Total != uint64(len(f.times)) || b.Next.UnixNano() != f.times[0] {
		f.t.Fatalf("%+v %v, want %d times from %d", b, err, len(f.times), f.times[0])
	}
	f.id = b.ID
	f.commit()
}

// arrived checks a delivery of a run of the backfill.
func (f *filling) arrived(d delivery.Delivery) {
	f.got(d)
	if f.deleted {
		f.t.Fatalf("%s is delivered after its job's delete was acknowledged", d.Run.ID)
	}
	if d.Run.Cause != carillon.CauseBackfill {
		return
	}
	t := d.Run.Scheduled.UnixNano()
	switch {
	case d.Run.Backfill != f.id:
		f.t.Fatalf("delivered for %q, not %q", d.Run.Backfill, f.id)
	case f.cancelled:
		f.t.Fatalf("%s is delivered after the cancel was acknowledged", d.Run.Scheduled)
	case !slices.Contains(f.times, t):
		f.t.Fatalf("%s is no time of the stretch", d.Run.Scheduled)
	}
	if f.spec.Overlap == carillon.OverlapSerial {
		ended := f.ended()
		for _, earlier := range f.times[:slices.Index(f.times, t)] {
			if len(ended[earlier]) == 0 {
				f.t.Fatalf("serial: %s is delivered, %s has not ended", d.Run.Scheduled, instant(earlier))
			}
		}
	}
	if d.Run.Attempt == 1 {
		if made, again := f.made[t]; again && made != d.Run.Due.UnixNano() {
			f.t.Fatalf("%s is made twice", d.Run.Scheduled)
		}
		f.made[t] = d.Run.Due.UnixNano()
	}
}

// ended returns the backfill's runs in the history, by scheduled time.
func (f *filling) ended() map[int64][]store.RunRecord {
	out := map[int64][]store.RunRecord{}
	for _, r := range f.history("a") {
		if r.ID.Cause == carillon.CauseBackfill {
			if run := partition.RunOf(&r); run.Backfill != f.id {
				f.t.Fatalf("the history has it for %q", run.Backfill)
			}
			out[r.ID.Scheduled] = append(out[r.ID.Scheduled], r)
		}
	}
	return out
}

func (f *filling) Deliver(rt *rapid.T) {
	f.recall()
	for _, d := range f.deliver(rapid.IntRange(1, 4).Draw(rt, "n")) {
		f.arrived(d)
	}
}

func (f *filling) Cancel(*rapid.T) {
	bid, err := store.ParseRunID(f.id)
	if err != nil {
		f.t.Fatal(err)
	}
	if b, ok := f.m.BackfillRuns.Cancel(f.now, bid); ok && b.Status != carillon.BackfillCancelled &&
		b.Status != carillon.BackfillDone {
		f.t.Fatalf("cancelled: %+v", b)
	} else if ok && b.Status == carillon.BackfillCancelled {
		f.whenDurable(func() { f.cancelled = true })
	}
	f.commit()
}

func (f *filling) Delete(*rapid.T) {
	f.bring(f.key)
	if _, err := f.m.Jobs.Delete(f.now, f.key); err != nil {
		return
	}
	f.whenDurable(func() { f.deleted = true })
	f.commit()
}

// counted checks that the counters agree with what they count, at any moment.
func (f *filling) counted(*rapid.T) {
	b, ok := f.look(f.id)
	if !ok {
		if !f.deleted {
			f.t.Fatal("the backfill is gone")
		}
		return
	}
	bid, _ := store.ParseRunID(f.id)
	open := max(0, len(f.m.Backfills.OpenRuns(bid))-1)
	if b.Finished.IsZero() && int(b.Begun-b.Succeeded-b.Failed) != open {
		f.t.Fatalf("%d open, %+v", open, b)
	}
	if f.spec.Overlap == carillon.OverlapSerial && open > 1 {
		f.t.Fatalf("serial, and %d runs are going on", open)
	}
}

// complete runs the backfill to its end.
func (f *filling) complete() {
	f.commit()
	for range 3000 {
		f.recall()
		ds := f.deliver(100)
		for _, d := range ds {
			f.arrived(d)
			f.tell(d, true)
		}
		f.commit()
		if len(ds) == 0 {
			if b, ok := f.look(f.id); !ok || !b.Finished.IsZero() {
				return
			}
			f.advance(300 * time.Millisecond)
		}
	}
	b, _ := f.look(f.id)
	f.t.Fatalf("it does not end: %+v", b)
}

// check compares what is left with what must be true.
func (f *filling) check() {
	if left := f.backfills(partition.UnfinishedBackfills); len(left) != 0 {
		f.t.Fatalf("%d records of unfinished backfills are left", len(left))
	}
	b, ok := f.look(f.id)
	if f.deleted {
		return
	}
	ended := f.ended()
	for t, runs := range ended {
		if len(runs) != 1 || !slices.Contains(f.times, t) {
			f.t.Fatalf("%s: %d runs ended", instant(t), len(runs))
		}
	}
	var succeeded, failed uint64
	for _, runs := range ended {
		if runs[0].Status == carillon.RunSucceeded {
			succeeded++
		} else {
			failed++
		}
	}
	if !ok || b.Succeeded != succeeded || b.Failed != failed || b.Begun != succeeded+failed ||
		b.Next != (time.Time{}) || b.Finished.IsZero() {
		f.t.Fatalf("%d succeeded, %d failed, but %+v", succeeded, failed, b)
	}
	switch {
	case b.Status == carillon.BackfillDone && (len(ended) != len(f.times) || b.Total != b.Begun):
		f.t.Fatalf("%d of %d times have run: %+v", len(ended), len(f.times), b)
	case b.Status != carillon.BackfillDone && !f.cancelled:
		f.t.Fatalf("nobody cancelled it: %+v", b)
	}
	if len(f.backfills(partition.EndedBackfills)) != 1 {
		f.t.Fatal("the ended backfill has no record")
	}
	for _, r := range f.jobs() {
		if r.State.Backfills != 0 {
			f.t.Fatalf("left behind: %+v", r.State)
		}
	}
	f.paced()
}

// paced checks that runs were made evenly, and no faster than the rate.
func (f *filling) paced() {
	rate := f.spec.Rate
	if rate == 0 {
		return
	}
	due := slices.Sorted(maps.Values(f.made))
	for i := range due {
		if i > 0 && rate < 100 && due[i]-due[i-1] < int64(1e9/rate) {
			f.t.Fatalf("%v a second, but runs %v apart", rate, time.Duration(due[i]-due[i-1]))
		}
		if k := i + int(math.Ceil(rate)); rate >= 1 && k < len(due) && due[k]-due[i] < int64(time.Second) {
			f.t.Fatalf("%v a second, but %d runs in %v", rate, k-i+1, time.Duration(due[k]-due[i]))
		}
	}
}

// TestBackfill runs a backfill through failures, crashes, pauses, cancels and deletes. The times of the range
// run once each and no others do, in order and at the rate. In the end nothing is left but the backfill's
// record.
func TestBackfill(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFilling(rt)
		if f.begin(); f.id == "" {
			return
		}
		ops := map[string]func(*rapid.T){
			"advance": f.Advance, "deliver": f.Deliver, "report": f.Report, "stage": f.Stage, "crash": f.Crash,
			"trigger": f.Trigger, "pause": f.Pause, "": f.counted,
		}
		switch rapid.IntRange(0, 3).Draw(rt, "end") {
		case 0:
			ops["cancel"] = f.Cancel
		case 1:
			ops["delete"] = f.Delete
		}
		rt.Repeat(ops)
		f.complete()
		f.check()
		f.bring(f.key)
		if _, err := f.m.Jobs.Delete(f.now, f.key); err != nil && !f.deleted && !f.finite {
			rt.Fatal(err)
		}
		f.commit()
		f.nothingLeft()
	})
}

// stretch is the range of the last n minutes before now.
func (r *rig) stretch(n int) carillon.BackfillSpec {
	return carillon.BackfillSpec{From: instant(r.now - int64(n)*int64(time.Minute) + 1), To: instant(r.now),
		Overlap: carillon.OverlapAllow}
}

func TestABackfillIsRefused(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "once", Due: carillon.In(time.Hour)})
	r.mustPut(carillon.Job{Name: "cron", Schedule: "* * * * * *", Paused: true})
	r.mustPut(carillon.Job{Name: "every", Schedule: "@every 1ms", Paused: true})
	day := carillon.BackfillSpec{From: instant(epoch - int64(13*24*time.Hour)), To: instant(epoch)}
	for _, c := range []struct {
		name, job, field string
		spec             carillon.BackfillSpec
		kind             carillon.Kind
		says             []string
	}{
		{"of nobody", "none", "name", r.stretch(1), carillon.NotFound, nil},
		{"of a one-shot", "once", "schedule", r.stretch(1), carillon.FailedPrecondition, nil},
		{"too long a cron", "cron", "to", day, carillon.InvalidArgument, []string{"1000001 or more", "1000000"}},
		{"too long an interval", "every", "to", day, carillon.InvalidArgument, []string{"1123200001", "1000000"}},
		{"empty", "cron", "from", carillon.BackfillSpec{From: instant(epoch - 10), To: instant(epoch - 1)},
			carillon.InvalidArgument, nil},
	} {
		_, err := r.backfill(c.job, c.spec)
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != c.kind || e.Field != c.field {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(e.Message, s) {
				t.Errorf("%s: %q does not say %s", c.name, e.Message, s)
			}
		}
	}
	for range carillon.MaxBackfills {
		r.mustBackfill("cron", r.stretch(1))
	}
	if _, err := r.backfill("cron", r.stretch(1)); !errors.Is(err, carillon.ResourceExhausted) {
		t.Errorf("one too many: %v", err)
	}
}

// TestABackfillLeavesRoom checks that a backfill waits while its job has many pending runs, and goes on when
// they end.
func TestABackfillLeavesRoom(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	r.bring(key)
	for range carillon.MaxPending - 1010 {
		if _, err := r.m.Jobs.Trigger(r.now, key, carillon.TriggerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := r.mustBackfill("a", r.stretch(30))
	r.flush()
	if b, _ = r.look(b.ID); b.Begun != 10 {
		t.Fatalf("begun %d, want 10", b.Begun)
	}
	for _, d := range r.deliver(15) {
		r.succeed(d)
	}
	r.flush()
	if b, _ = r.look(b.ID); b.Begun != 25 {
		t.Fatalf("begun %d, want 25", b.Begun)
	}
}

// TestALargeBackfill checks that at most a thousand runs are unfinished at a time, that they do not delay the
// job's own runs, and that all of them end.
func TestALargeBackfill(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", History: carillon.History{Runs: 10_000}})
	const runs = 5000
	r.now = epoch + int64(30*time.Second)
	b := r.mustBackfill("a", r.stretch(runs))
	r.flush()
	if b, _ = r.look(b.ID); b.Begun != 1000 {
		t.Fatalf("begun %d at a time", b.Begun)
	}
	own := 0
	for i := 0; b.Status == carillon.BackfillRunning && i < 2000; i++ {
		r.now += int64(time.Second)
		r.step()
		for k, d := range r.deliver(10) {
			if k == 5 {
				r.take() // while this batch is on its way, other runs end
			}
			if d.Run.Cause == carillon.CauseSchedule {
				own++
			}
			r.succeed(d)
			r.step()
		}
		r.land()
		b, _ = r.look(b.ID)
	}
	if took := (r.now - epoch) / int64(time.Minute); own < int(took)/2 {
		t.Errorf("the job's own runs were delivered %d times in %d minutes", own, took)
	}
	if b.Status != carillon.BackfillDone || b.Succeeded != runs {
		t.Errorf("%+v", b)
	}
}

// TestAJobThatHasEndedStaysForItsBackfill also checks that a put of another schedule changes nothing for the
// backfill.
func TestAJobThatHasEndedStaysForItsBackfill(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *"})
	b := r.mustBackfill("a", carillon.BackfillSpec{From: instant(r.now - int64(2*time.Minute)),
		To: instant(r.now)})
	r.flush()
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)}) // a one-shot now
	r.advance(time.Second)
	var ran []string
	for len(r.jobs()) > 0 {
		ds := r.deliver(1)
		if len(ds) == 0 {
			t.Fatalf("nothing runs, but the job is there; ran %v", ran)
		}
		ran = append(ran, fmt.Sprint(ds[0].Run.Cause, " ",
			(ds[0].Run.Scheduled.UnixNano()-epoch)/int64(time.Second)))
		r.succeed(ds[0])
		r.flush()
		r.start()
	}
	slices.Sort(ran)
	if want := []string{"backfill -120", "backfill -60", "backfill 0", "schedule 1"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if b, _ = r.look(b.ID); b.Status != carillon.BackfillDone || b.Succeeded != 3 {
		t.Errorf("%+v", b)
	}
}

// TestADeadRunOfABackfillIsCountedOnce redrives it. It keeps its id and its backfill, which does not count it
// again.
func TestADeadRunOfABackfillIsCountedOnce(t *testing.T) {
	r := newRig(t, partition.Config{})
	dead := carillon.Constant(time.Second).WithMaxRetries(0)
	dead.OnExhausted = carillon.ExhaustedDead
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true, FailurePolicy: dead})
	b := r.mustBackfill("a", r.stretch(2))
	r.flush()
	ds := r.deliver(2)
	r.failRun(ds[0])
	r.flush()
	if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	again := r.deliver(1)
	if len(again) != 1 || again[0].Run.ID != ds[0].Run.ID || again[0].Run.Backfill != b.ID {
		t.Fatalf("redriven: %+v", again)
	}
	r.succeed(again[0])
	r.flush()
	if b, _ = r.look(b.ID); b.Status != carillon.BackfillRunning || b.Failed != 1 || b.Succeeded != 0 {
		t.Errorf("%+v", b)
	}
	r.succeed(ds[1])
	r.flush()
	if b, _ = r.look(b.ID); b.Status != carillon.BackfillDone || b.Failed != 1 || b.Succeeded != 1 {
		t.Errorf("%+v", b)
	}
}

// TestCancelStopsConsumers cancels a backfill of which one run is running, one is parked in the store, and
// others wait.
func TestCancelStopsConsumers(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true})
	b := r.mustBackfill("a", r.stretch(5))
	r.flush()
	d := r.deliver(1)[0]
	r.m.Window.Stage(queueQ, r.now, 2)
	r.advance(2 * time.Second) // the attempt is durable
	r.start()                  // the parked ones are in the store alone
	bid, err := store.ParseRunID(b.ID)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.m.BackfillRuns.Cancel(r.now, bid)
		r.flush()
	}
	if len(r.cancels) != 1 || r.cancels[0].Token != d.Run.Token {
		t.Errorf("told to stop: %+v", r.cancels)
	}
	if b, _ = r.look(b.ID); b.Status != carillon.BackfillCancelled || b.Failed != 5 || b.Finished.IsZero() {
		t.Errorf("%+v", b)
	}
	for _, h := range r.history("a") {
		if h.Status != carillon.RunCancelled || h.Reason != partition.ReasonBackfill {
			t.Errorf("%+v", h)
		}
	}
	if v := r.succeed(d); v != partition.Stale {
		t.Errorf("its result is taken: %v", v)
	}
}

// TestACancelReachesRunsBeforeAConsumerDoes brings parked and due runs into memory between the cancel of
// their backfill and the backfill's own reads.
func TestACancelReachesRunsBeforeAConsumerDoes(t *testing.T) {
	for _, parked := range []bool{true, false} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true})
		b := r.mustBackfill("a", r.stretch(5))
		r.flush()
		if parked {
			r.m.Window.Stage(queueQ, r.now, 5)
			r.flush()
		}
		r.own()
		r.bring(carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"})
		bid, err := store.ParseRunID(b.ID)
		if err != nil {
			t.Fatal(err)
		}
		r.m.Tick(r.now)
		if now, ok := r.m.BackfillRuns.Cancel(r.now, bid); !ok || now.Status != carillon.BackfillCancelled {
			t.Fatalf("%+v %v", now, ok)
		}
		r.readAhead()
		r.m.Tick(r.now)
		r.recall()
		if ds, _ := r.m.Deliver(nil, r.now, queueQ, 10, false, nil); len(ds) != 0 {
			t.Errorf("parked %v: %d delivered after the cancel", parked, len(ds))
		}
		if now, _ := r.look(b.ID); now.Failed != 5 {
			t.Errorf("parked %v: %+v", parked, now)
		}
	}
}

// TestAPlanIsOfOneSchedule: a plan is refused when the job's schedule has changed since.
func TestAPlanIsOfOneSchedule(t *testing.T) {
	r := newRig(t, partition.Config{})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true})
	r.bring(key)
	basis, err := r.m.BackfillRuns.Basis(key)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.PlanBackfill(basis, nil, r.stretch(5))
	if err != nil {
		t.Fatal(err)
	}
	r.mustPut(carillon.Job{Name: "a", Schedule: "*/2 * * * *", Paused: true})
	r.bring(key)
	if b, ok, err := r.m.BackfillRuns.Start(r.now, key, r.stretch(5), plan); ok || err != nil {
		t.Errorf("%+v %v", b, err)
	}
}

// TestTheSweepRemovesEndedBackfills keeps a record as long as the job keeps its history.
func TestTheSweepRemovesEndedBackfills(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * *", Paused: true,
		History: carillon.History{Keep: time.Hour}})
	r.mustBackfill("a", r.stretch(1))
	r.flush()
	r.succeed(r.deliver(1)[0])
	r.flush()
	for _, want := range []int{1, 0} {
		r.advance(time.Hour - 1 + time.Duration(1-want))
		r.m.Backfills.Sweep(r.backfills(partition.EndedBackfills), r.now)
		r.flush()
		if got := len(r.backfills(partition.EndedBackfills)); got != want {
			t.Errorf("%d records, want %d", got, want)
		}
	}
}
