package partition_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// redrive redrives the newest run of the job "a", which is dead.
func (r *rig) redrive() carillon.Run {
	r.t.Helper()
	r.whole(keyA)
	run, err := r.m.Jobs.Redrive(r.now, r.history("a")[0])
	if err != nil {
		r.t.Fatal(err)
	}
	r.flush()
	return run
}

// failAll fails the attempts of what is due, and the retries, until nothing is left.
func (r *rig) failAll() {
	r.t.Helper()
	for range 100 {
		r.recall()
		for _, d := range r.deliver(10) {
			if r.report(d, carillon.Result{Outcome: carillon.OutcomeFailure,
				Message: fmt.Sprint("error ", d.Run.Attempt)}) != partition.Accepted {
				r.t.Fatalf("the failure of attempt %d is refused", d.Run.Attempt)
			}
		}
		r.flush()
		if len(r.jobs()) == 0 || r.jobs()[0].State.Pending == 0 && !r.jobs()[0].State.Run.Live {
			return
		}
		r.advance(time.Second)
	}
	r.t.Fatal("its run does not end")
}

// redrivable are jobs whose first run dies after three attempts: one that is then gone, and one that is not.
var redrivable = map[string]carillon.Job{
	"one-shot": {Name: "a", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)},
	"recurring": {Name: "a", Schedule: "@daily",
		Due: carillon.At(time.Unix(0, epoch)), FailurePolicy: carillon.FailurePolicy{
			Kind: carillon.PolicyConstant, Interval: time.Second,
			OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(2)},
}

// TestARedriveKeepsTheEarlierErrors redrives a run twice, with the node killed in between.
func TestARedriveKeepsTheEarlierErrors(t *testing.T) {
	for kind, j := range redrivable {
		for _, kill := range []bool{false, true} {
			r := newRig(t, partition.Config{})
			r.landed = r.wantCounted
			r.mustPut(j)
			r.failAll()
			id := r.history("a")[0].ID
			for life := 1; life <= 3; life++ {
				h := r.history("a")
				if len(h) != 1 || h[0].ID != id || h[0].Status != carillon.RunDead ||
					h[0].Attempt != 3*life || h[0].Started != epoch {
					t.Fatalf("%s: after %d lives the history is %+v", kind, life, h)
				}
				wantErrors(t, h[0].Errors, 3*(life-1), 3*life)
				run := r.redrive()
				wantErrors(t, run.Errors, 3*life, 3*life)
				if kill {
					r.start()
				}
				if life < 3 {
					r.failAll()
				}
			}
			r.advance(time.Second)
			d := r.deliver(1)[0]
			if d.Run.Attempt != 10 || r.succeed(d) != partition.Accepted {
				t.Fatalf("%s: attempt %d", kind, d.Run.Attempt)
			}
			r.flush()
			if h := r.history("a"); len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 10 {
				t.Fatalf("%s: in the end the history is %+v", kind, h)
			}
		}
	}
}

// wantErrors checks that there is an error of each attempt, or of the newest that fit, and that those up to
// redriven are marked.
func wantErrors(t *testing.T, errs []carillon.AttemptError, redriven, attempts int) {
	t.Helper()
	if len(errs) != min(attempts, carillon.MaxRunErrors) {
		t.Fatalf("after %d attempts there are %d errors", attempts, len(errs))
	}
	for i, e := range errs {
		n := attempts - len(errs) + i + 1
		if e.Attempt != n || e.Message != fmt.Sprint("error ", n) || e.Redriven != (n <= redriven) {
			t.Fatalf("error %d of %d is %+v", n, attempts, e)
		}
	}
}

// TestARedriveCountsTheRunOnce checks the counters of a job of which a run dies, is redriven and succeeds.
func TestARedriveCountsTheRunOnce(t *testing.T) {
	for kind, j := range redrivable {
		r := newRig(t, partition.Config{})
		r.landed = r.wantCounted
		r.mustPut(j)
		r.failAll()
		r.redrive()
		r.whole(keyA)
		back, err := r.m.Records.Job(keyA)
		if c := back.Status.Counters; err != nil || c.Fired != 1 || c.Dead != 0 {
			t.Errorf("%s: while it is tried again it counts %+v, %v", kind, c, err)
		}
		d := r.deliver(1)[0]
		r.whole(keyA)
		if now, err := r.m.Records.Job(keyA); err != nil || now.Status.Counters != back.Status.Counters {
			t.Errorf("%s: its fourth attempt is counted as a run: %+v, %v", kind, now.Status.Counters, err)
		}
		r.succeed(d)
		r.flush()
		if !j.Recurring() {
			continue
		}
		r.whole(keyA)
		want := carillon.Counters{Fired: 1, Succeeded: 1, Failed: 3, Retried: 2}
		if after, err := r.m.Records.Job(keyA); err != nil || after.Status.Counters != want {
			t.Errorf("%s: in the end it counts %+v, %v", kind, after.Status.Counters, err)
		}
	}
}

// TestARunOfAnEarlierNamesakeIsCounted redrives a run whose job has been deleted and put again since.
func TestARunOfAnEarlierNamesakeIsCounted(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(redrivable["one-shot"])
	r.failAll()
	r.mustPut(carillon.Job{Name: "a", Schedule: "@daily"})
	r.redrive()
	r.succeed(r.deliver(1)[0])
	r.flush()
	r.whole(keyA)
	want := carillon.Counters{Fired: 1, Succeeded: 1}
	if j, err := r.m.Records.Job(keyA); err != nil || j.Status.Counters != want {
		t.Errorf("it counts %+v, %v", j.Status.Counters, err)
	}
}

// TestAJobThatIsBroughtBackCountsEachRun: two dead runs of a job that is gone are redriven. The first brings
// the job back, with new counters, which do not have the second either.
func TestAJobThatIsBroughtBackCountsEachRun(t *testing.T) {
	r := newRig(t, partition.Config{})
	dies := carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second,
		OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(0)
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1m", FailurePolicy: dies,
		Target: carillon.WorkerQueue("q")})
	for range 2 {
		r.advance(time.Minute)
		r.failRun(r.deliver(1)[0])
		r.flush()
	}
	r.whole(keyA)
	if _, err := r.m.Jobs.Delete(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	r.flush()
	for _, dead := range r.history("a") {
		r.bring(keyA)
		if _, err := r.m.Jobs.Redrive(r.now, dead); err != nil {
			t.Fatal(err)
		}
		r.flush()
	}
	r.whole(keyA)
	back, err := r.m.Records.Job(keyA)
	if c := back.Status.Counters; err != nil || c != (carillon.Counters{Fired: 2}) {
		t.Errorf("it counts %+v, %v", c, err)
	}
}

func TestARedriveLeavesTheHistoryInOneBatch(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant,
		Interval: time.Second}.WithMaxRetries(0)})
	d := r.deliver(1)[0]
	r.failRun(d)
	r.flush()
	dead := r.history("a")[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
	r.bring(keyOf("a"))
	if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Jobs.Redrive(r.now, dead); err != nil {
		t.Fatal(err)
	}
	for {
		b, seq := r.m.Batch()
		if b == nil {
			t.Fatal("not redriven")
		}
		if (len(b.Redrive) > 0) != (len(b.Puts) > 0) {
			t.Fatalf("a crash after batch %d would lose the run: %+v", seq, b)
		}
		if len(b.Redrive) > 0 {
			return
		}
	}
}

func TestAnOldTokenIsStaleAfterARedrive(t *testing.T) {
	for _, keep := range []bool{true, false} {
		r := newRig(t, partition.Config{})
		never := carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second,
			OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(0)
		j := carillon.Job{Name: "a", FailurePolicy: never, Lease: 5 * time.Second}
		if keep {
			j.Schedule = "@every 1h"
		}
		r.mustPut(j)
		r.advance(time.Hour)
		first := r.deliver(1)
		if !keep {
			r.advance(10 * time.Second)
		}
		if len(first) != 1 {
			t.Fatalf("%d delivered", len(first))
		}
		r.advance(10 * time.Second) // the lease is over, and with it the run
		r.bring(keyOf("a"))
		if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
			t.Fatal(err)
		}
		r.flush()
		again := r.deliver(1)
		if len(again) != 1 || again[0].Run.Token == first[0].Run.Token {
			t.Fatalf("the same token again: %+v", again)
		}
		if v := r.succeed(first[0]); v != partition.Stale {
			t.Fatalf("result of the attempt before: %v", v)
		}
		if v := r.succeed(again[0]); v != partition.Accepted {
			t.Fatalf("result: %v", v)
		}
		r.flush()
	}
}

// TestARedrivenRunKeepsItsContentOutOfMemory redrives a run whose payload is too long to be kept in memory,
// after its job has been given another one.
func TestARedrivenRunKeepsItsContentOutOfMemory(t *testing.T) {
	r := newRig(t, partition.Config{})
	long := make([]byte, 2*partition.InlineSpec)
	j := carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes(long, ""),
		FailurePolicy: carillon.Drop()}
	j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(0)
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	first := r.deliver(1)[0]
	r.failRun(first)
	r.flush()
	j.Data = carillon.Bytes([]byte("other"), "")
	r.mustPut(j)
	if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.start() // what is read of long records is their state
	ds := r.deliver(1)
	if len(ds) != 1 || len(ds[0].Run.Data.Bytes) != len(long) || ds[0].Run.ID != first.Run.ID ||
		ds[0].Run.Token == first.Run.Token {
		t.Fatalf("%+v", ds)
	}
}

func TestTriggerBesideTheSchedule(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Paused: true})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	r.bring(key)
	run, err := r.m.Jobs.Trigger(r.now, key, carillon.TriggerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.flush()
	ds := r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID != run.ID || ds[0].Run.Cause != carillon.CauseTrigger {
		t.Fatalf("got %+v", ds)
	}
	r.failRun(ds[0])
	r.flush()
	r.start()
	r.advance(time.Second)
	ds = r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID != run.ID || ds[0].Run.Attempt != 2 {
		t.Fatalf("after a restart: %+v", ds)
	}
	r.succeed(ds[0])
	r.flush()
	jobs := r.jobs()
	if len(jobs) != 1 || jobs[0].State.Pending != 0 || jobs[0].State.Counters.Succeeded != 1 {
		t.Fatalf("job %+v", jobs)
	}
}

// TestALostTriggeredRunIsTakenOverAtItsOwnPace checks the lease of a pending run whose job is not in memory
// at takeover: its job's lease counts, not the longest possible one.
func TestALostTriggeredRunIsTakenOverAtItsOwnPace(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 24h", Lease: time.Second})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	r.bring(key)
	if _, err := r.m.Jobs.Trigger(r.now, key, carillon.TriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.deliver(1)
	r.now += int64(500 * time.Millisecond)
	r.m.Attempts.KeepAll()
	r.flush()
	r.start()
	const wait = time.Second/4 + partition.TakeoverGrace // a heartbeat and the grace
	r.advance(wait - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatalf("it came again before its worker had a chance to beat: %+v", ds)
	}
	r.advance(1)
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 2 {
		t.Fatalf("after %v: %+v", wait, ds)
	}
}

func TestDeadRunComesBackUnderItsID(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant,
		Interval: time.Second}.WithMaxRetries(0)})
	d := r.deliver(1)[0]
	r.failRun(d)
	r.flush()
	dead := r.history("a")
	if len(dead) != 1 || dead[0].Status != carillon.RunDead {
		t.Fatalf("history %+v", dead)
	}
	if _, err := r.m.Jobs.Redrive(r.now, dead[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Jobs.Redrive(r.now, dead[0]); !errors.Is(err, carillon.FailedPrecondition) {
		t.Fatalf("twice: %v", err)
	}
	r.flush()
	ds := r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID != d.Run.ID || ds[0].Run.Attempt != 2 {
		t.Fatalf("got %+v", ds)
	}
	r.succeed(ds[0])
	r.flush()
	if h := r.history("a"); len(h) != 1 || h[0].Status != carillon.RunSucceeded || len(r.jobs()) != 0 {
		t.Fatalf("history %+v, jobs %+v", h, r.jobs())
	}
}

// overlapOf is the option of a rule.
func overlapOf(o carillon.Overlap) carillon.TriggerOptions {
	return carillon.TriggerOptions{Overlap: &o}
}

// TestATriggeredRunKeepsItsOwnContent: through retries, an edit of its job, a death and a redrive, also if the
// content is too long to be kept in memory.
func TestATriggeredRunKeepsItsOwnContent(t *testing.T) {
	for _, size := range []int{0, 3, 2 * partition.InlineSpec} {
		r := newRig(t, partition.Config{})
		j := carillon.Job{Name: "a", Schedule: "@every 24h", Data: carillon.Bytes([]byte("the job's"), "text/plain"),
			Metadata: map[string]string{"of": "the job"}, FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)}
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
		r.mustPut(j)
		r.bring(keyA)
		own := carillon.Bytes(bytes.Repeat([]byte("x"), size), "text/own")
		run, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{Data: &own})
		if err != nil {
			t.Fatal(err)
		}
		r.flush()
		wantOwn := func(attempt int) {
			t.Helper()
			r.advance(time.Second)
			ds := r.deliver(5)
			if len(ds) != 1 || ds[0].Run.ID != run.ID || ds[0].Run.Attempt != attempt ||
				!bytes.Equal(ds[0].Run.Data.Bytes, own.Bytes) || ds[0].Run.Data.ContentType != "text/own" ||
				ds[0].Run.Metadata["of"] != "the job" {
				t.Fatalf("%d bytes, attempt %d: %+v", size, attempt, ds)
			}
			r.failRun(ds[0])
			r.flush()
		}
		wantOwn(1)
		j.Data = carillon.Bytes([]byte("another"), "text/plain")
		r.mustPut(j)
		r.start()
		wantOwn(2)
		if h := r.history("a"); len(h) != 1 || h[0].Status != carillon.RunDead {
			t.Fatalf("%+v", h)
		}
		r.redrive()
		wantOwn(3)
	}
}

// TestATriggerWithMetadataAlone has the data of its job, and another trigger is not touched by it.
func TestATriggerWithMetadataAlone(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 24h", Data: carillon.JSON(1),
		Metadata: map[string]string{"of": "the job", "more": "of it"}})
	r.bring(keyA)
	_, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{Metadata: map[string]string{"of": "the run"}})
	if err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.trigger("a")
	r.flush()
	var got []string
	for _, d := range r.deliver(5) {
		got = append(got, fmt.Sprintf("%s %v", d.Run.Data.Bytes, d.Run.Metadata))
	}
	slices.Sort(got)
	if want := []string{"1 map[more:of it of:the job]", "1 map[of:the run]"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestATriggerThatSkips begins no run beside an unfinished one, of whatever cause.
func TestATriggerThatSkips(t *testing.T) {
	for what, begin := range map[string]func(r *rig){
		"no run":              func(*rig) {},
		"a run of its own":    func(r *rig) { r.advance(time.Hour); r.deliver(1) },
		"a time that is due":  func(r *rig) { r.now += int64(time.Hour) },
		"a triggered run":     func(r *rig) { r.trigger("a"); r.flush() },
		"one that is running": func(r *rig) { r.trigger("a"); r.flush(); r.deliver(1) },
		"one that is over":    func(r *rig) { r.trigger("a"); r.flush(); r.succeed(r.deliver(1)[0]); r.flush() },
		"one after a restart": func(r *rig) { r.trigger("a"); r.flush(); r.start() },
	} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
		begin(r)
		r.bring(keyA)
		run, err := r.m.Jobs.Trigger(r.now, keyA, overlapOf(carillon.OverlapSkip))
		r.flush()
		may := what == "no run" || what == "one that is over"
		if may != (err == nil) || !may && carillon.KindOf(err) != carillon.FailedPrecondition {
			t.Errorf("beside %s: %+v, %v", what, run, err)
		}
	}
}

// TestATriggerThatReplaces cancels the job's unfinished runs, tells their consumers, and leaves its times alone.
func TestATriggerThatReplaces(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.landed = r.wantCounted
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	r.trigger("a")
	r.flush()
	r.advance(time.Hour)
	begun := r.deliver(5)
	if len(begun) != 2 {
		t.Fatalf("%+v", begun)
	}
	r.trigger("a") // and one that nobody has yet
	r.flush()
	r.whole(keyA)
	next := r.jobs()[0].State.Next
	r.m.Begin()
	run, err := r.m.Jobs.Trigger(r.now, keyA, overlapOf(carillon.OverlapReplace))
	if err != nil {
		t.Fatal(err)
	}
	r.flush()
	if told := r.m.Attempts.Cancels(); len(told)+len(r.cancels) != 2 {
		t.Errorf("told to stop: %v %v", told, r.cancels)
	}
	h := r.history("a")
	if len(h) != 3 {
		t.Fatalf("%+v", h)
	}
	for _, e := range h {
		if e.Status != carillon.RunCancelled || e.Reason != partition.ReasonOverlap {
			t.Errorf("%+v", e)
		}
	}
	ds := r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID != run.ID || r.succeed(begun[0]) != partition.Stale {
		t.Fatalf("%+v", ds)
	}
	r.succeed(ds[0])
	r.flush()
	if s := r.jobs()[0].State; s.Pending != 0 || s.Next != next {
		t.Errorf("%+v", s)
	}
}

// TestATriggerThatReplacesAOneShotsRun: the job stays until the new run has ended.
func TestATriggerThatReplacesAOneShotsRun(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	r.deliver(1)
	r.whole(keyA)
	if _, err := r.m.Jobs.Trigger(r.now, keyA, overlapOf(carillon.OverlapReplace)); err != nil {
		t.Fatal(err)
	}
	r.flush()
	ds := r.deliver(5)
	if len(ds) != 1 || len(r.jobs()) != 1 {
		t.Fatalf("%+v, jobs %+v", ds, r.jobs())
	}
	r.succeed(ds[0])
	r.flush()
	if len(r.jobs()) != 0 {
		t.Errorf("%+v", r.jobs())
	}
}

func TestWrongTriggersAreRefused(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	large, wrong := carillon.Bytes(make([]byte, 1<<20+1), ""), carillon.Bytes(nil, "no type")
	for field, o := range map[string]carillon.TriggerOptions{
		"overlap":      overlapOf(carillon.OverlapSerial),
		"data":         {Data: &large},
		"content_type": {Data: &wrong},
		"metadata":     {Metadata: map[string]string{"": "x"}},
	} {
		r.bring(keyA)
		_, err := r.m.Jobs.Trigger(r.now, keyA, o)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if r.flush(); r.jobs()[0].State.Pending != 0 {
		t.Error("a run was made")
	}
}

// TestAJobOfDaprIsNotTriggeredWithAReference: its sidecar gets the data with the run.
func TestAJobOfDaprIsNotTriggeredWithAReference(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "dapr/app/x/a", Schedule: "@every 1h",
		Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x"}}})
	key := keyOf("dapr/app/x/a")
	r.bring(key)
	_, err := r.m.Jobs.Trigger(r.now, key, carillon.TriggerOptions{Data: &carillon.Data{
		Ref: &carillon.PayloadRef{Day: 1, Size: 1}}})
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "payload" {
		t.Errorf("%v", err)
	}
}
