package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

func TestOneShotLeavesNothingBehind(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(2 * time.Second)})
	if ds := r.deliver(10); len(ds) != 0 {
		t.Fatalf("delivered %d before it was due", len(ds))
	}
	r.advance(2 * time.Second)
	ds := r.deliver(10)
	if len(ds) != 1 || ds[0].Run.Attempt != 1 || ds[0].Run.Job != "a" {
		t.Fatalf("got %+v", ds)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
	r.flush()
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Fatalf("left in memory: %+v", s)
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 1 {
		t.Fatalf("history %+v", h)
	}
}

func TestNothingIsHandedOutBeforeItsPutIsDurable(t *testing.T) {
	r := newRig(t, partition.Config{})
	if _, err := r.put(carillon.Job{Name: "now"}); err != nil {
		t.Fatal(err)
	}
	r.take() // on its way
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("handed out while its put was on its way")
	}
	r.land()
	if ds := r.deliver(1); len(ds) != 1 {
		t.Fatal("not handed out once its put was durable")
	}
}

func TestDefaultOneShotPolicy(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	var gaps []time.Duration
	last := int64(0)
	for i := 1; i <= 5; i++ {
		ds := r.deliver(1)
		if len(ds) != 1 || ds[0].Run.Attempt != i {
			t.Fatalf("attempt %d: %+v", i, ds)
		}
		if last != 0 {
			gaps = append(gaps, time.Duration(r.now-last))
		}
		last = r.now
		r.failRun(ds[0])
		r.flush()
		if at, ok := r.m.NextWake(); ok {
			r.advance(time.Duration(at - r.now))
		}
	}
	want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for i := range want {
		if gaps[i] != want[i] {
			t.Fatalf("gaps %v, want %v", gaps, want)
		}
	}
	r.advance(24 * time.Hour)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("a sixth attempt")
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunDead || len(h[0].Errors) != 5 || h[0].Spec == nil {
		t.Fatalf("history %+v", h)
	}
	if len(r.jobs()) != 0 {
		t.Fatal("a dead one-shot stays among the jobs")
	}
}

func TestRetriesGoOnAcrossARestart(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Constant(30 * time.Second).WithMaxRetries(5)})
	first := r.deliver(1)[0]
	r.failRun(first)
	r.flush()
	r.advance(30 * time.Second)
	second := r.deliver(1)[0]
	r.failRun(second)
	r.flush()
	r.now += int64(10 * time.Second)
	r.start()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("attempt 3 right after the restart")
	}
	r.advance(20*time.Second - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("attempt 3 before its time")
	}
	r.advance(1)
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.Attempt != 3 || ds[0].Run.ID != first.Run.ID {
		t.Fatalf("got %+v", ds)
	}
}

func TestLostLeaseGoesElsewhereAndTheLateResultIsStale(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second})
	first := r.deliver(1)[0]
	r.advance(10 * time.Second)
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.Attempt != 2 || ds[0].Run.ID != first.Run.ID || ds[0].Run.Token == first.Run.Token {
		t.Fatalf("got %+v", ds)
	}
	if v := r.succeed(first); v != partition.Stale {
		t.Fatalf("late result: %v", v)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatalf("result in force: %v", v)
	}
	if len(r.cancels) != 1 || r.cancels[0].Token != first.Run.Token {
		t.Fatalf("cancels %+v", r.cancels)
	}
}

func TestBeatsKeepALeaseWithoutWrites(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 40 * time.Second, Timeout: time.Hour})
	d := r.deliver(1)[0]
	tok, err := partition.ParseToken(d.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for range 30 {
		r.now += int64(10 * time.Second)
		if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Accepted {
			t.Fatalf("beat: %v", v)
		}
		r.step()
		if r.take(); len(r.batches) > 0 {
			writes++
			r.land()
		}
	}
	if writes > 12 {
		t.Fatalf("%d writes for 30 beats", writes)
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("after 300 s of beats: %v", v)
	}
}

func TestTokensSurviveARestart(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second})
	d := r.deliver(1)[0]
	r.advance(2 * time.Second) // old enough for its grant to be durable
	r.start()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("delivered again while its lease lasts")
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("result over a restart: %v", v)
	}
	r.flush()
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("the same result again: %v", v)
	}
	if v := r.failRun(d); v != partition.Stale {
		t.Fatalf("another result of a finished attempt: %v", v)
	}
}

func TestTakeoverGivesABeatOfGrace(t *testing.T) {
	r := newRig(t, partition.Config{TakeoverGrace: 2 * time.Second})
	r.mustPut(carillon.Job{Name: "a", Lease: 8 * time.Second})
	r.deliver(1)
	r.advance(1500 * time.Millisecond)
	r.now = epoch + int64(time.Hour) // the stored lease is long over
	r.start()
	r.advance(4*time.Second - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("taken away before a beat could come")
	}
	r.advance(1)
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 2 {
		t.Fatalf("got %+v", ds)
	}
}

func TestEditFencesTheAttemptInForce(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes([]byte("old"), "")})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	put := r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes([]byte("new"), "")})
	if put.Job.Status.Generation != 2 {
		t.Fatalf("generation %d", put.Job.Status.Generation)
	}
	if v := r.succeed(d); v != partition.Stale {
		t.Fatalf("result of the old generation: %v", v)
	}
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.ID != d.Run.ID || ds[0].Run.Attempt != 2 || string(ds[0].Run.Data.Bytes) != "new" {
		t.Fatalf("got %+v", ds)
	}
	r.succeed(ds[0])
	r.advance(time.Hour)
	if ds := r.deliver(2); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(2*time.Hour) {
		t.Fatalf("phase lost: %+v", ds)
	}
}

func TestLabelsDoNotFence(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Labels: map[string]string{"x": "y"}, Note: "hello"})
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
}

func TestSamePutKeepsPhaseAndGeneration(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 10s"}
	first := r.mustPut(j)
	r.advance(7 * time.Second)
	again := r.mustPut(j)
	if again.Changed || again.Job.Status.Generation != 1 || !again.Job.Status.NextRun.Equal(first.Job.Status.NextRun) {
		t.Fatalf("got %+v", again)
	}
}

func TestRelativeOneShotRearms(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Due: carillon.In(10 * time.Second)}
	r.mustPut(j)
	r.advance(7 * time.Second)
	if again := r.mustPut(j); !again.Changed {
		t.Fatal("not re-armed")
	}
	r.advance(9 * time.Second)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("fired at its old time")
	}
	r.advance(time.Second)
	if ds := r.deliver(1); len(ds) != 1 {
		t.Fatal("not fired at its new time")
	}
}

func TestPutDuringOneShotRunReplacesIt(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)})
	if v := r.succeed(d); v != partition.Stale {
		t.Fatalf("old acknowledgement: %v", v)
	}
	r.advance(time.Second)
	ds := r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID == d.Run.ID {
		t.Fatalf("got %+v", ds)
	}
	r.succeed(ds[0])
	r.flush()
	if len(r.jobs()) != 0 {
		t.Fatal("not removed")
	}
}

func TestMisfireRules(t *testing.T) {
	for name, c := range map[string]struct {
		misfire carillon.Misfire
		want    []int // scheduled, in units of 10 s after the put
	}{
		"latest": {carillon.MisfireLatest, []int{6}},
		"all":    {carillon.MisfireAll, []int{1, 2, 3, 4, 5, 6}},
		"skip":   {carillon.MisfireSkip, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Misfire: c.misfire})
			r.now += int64(68 * time.Second) // everything is down
			r.start()
			r.flush()
			var got []int
			for ds := r.deliver(1); len(ds) == 1; ds = r.deliver(1) {
				got = append(got, int((ds[0].Run.Scheduled.UnixNano()-epoch)/int64(10*time.Second)))
				r.succeed(ds[0])
				r.flush()
			}
			if len(got) != len(c.want) {
				t.Fatalf("ran %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Fatalf("ran %v, want %v", got, c.want)
				}
			}
			r.flush()
			accounted(t, r, "a", 10*time.Second, 6)
		})
	}
}

// accounted checks that each of the first n scheduled times of an interval job either has run or has a record
// that says why not, but not both.
func accounted(t tb, r *rig, name string, every time.Duration, n int) {
	t.Helper()
	seen := map[int64]int{}
	for _, h := range r.history(name) {
		if h.ID.Cause != carillon.CauseSchedule {
			continue
		}
		if h.Status != carillon.RunSkipped || h.Skipped == 0 {
			seen[h.ID.Scheduled]++
			continue
		}
		count := uint64(0)
		for at := h.From; at <= h.ID.Scheduled; at += int64(every) {
			seen[at]++
			count++
		}
		if count != h.Skipped {
			t.Fatalf("a record of %d skipped times spans %d", h.Skipped, count)
		}
	}
	for i := 1; i <= n; i++ {
		at := epoch + int64(i)*int64(every)
		if seen[at] != 1 {
			t.Fatalf("scheduled time %d of %s is accounted for %d times", i, name, seen[at])
		}
		delete(seen, at)
	}
	if len(seen) != 0 {
		t.Fatalf("records of times that were never scheduled: %v", seen)
	}
}

func TestOverlapSkip(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapSkip})
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	r.advance(35 * time.Second)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("overlaps")
	}
	r.succeed(d)
	r.flush()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("a skipped time runs")
	}
	r.advance(5 * time.Second)
	ds := r.deliver(1)
	if len(ds) != 1 {
		t.Fatal("does not go on")
	}
	r.succeed(ds[0])
	r.flush()
	accounted(t, r, "a", 10*time.Second, 5)
}

func TestSerialWaits(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Misfire: carillon.MisfireSkip})
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	r.advance(12 * time.Second)
	r.succeed(d)
	r.flush()
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(20*time.Second) {
		t.Fatalf("the time that waited does not run: %+v", ds)
	}
}

func TestStagingCostsNoAttemptAndNoMemory(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range 40 {
		r.mustPut(carillon.Job{Name: string(rune('a'+i%26)) + string(rune('a'+i/26))})
	}
	r.advance(2 * time.Second)
	if n := r.m.Window.Stage(queueQ, r.now, 1000); n != 40 {
		t.Fatalf("staged %d", n)
	}
	r.flush()
	if s := r.m.Stats(); s.Resident != 0 {
		t.Fatalf("in memory: %+v", s)
	}
	r.start() // everything restarts
	if ds := r.deliver(100); len(ds) != 0 {
		t.Fatal("delivered without a consumer")
	}
	r.recall()
	ds := r.deliver(35)
	if len(ds) != 35 {
		t.Fatalf("delivered %d", len(ds))
	}
	for _, d := range ds {
		if d.Run.Attempt != 1 {
			t.Fatalf("attempt %d", d.Run.Attempt)
		}
		r.succeed(d)
	}
	r.flush()
	if n := len(r.jobs()); n != 5 {
		t.Fatalf("%d jobs stay", n)
	}
}

func TestStagedJobsCanBeDeletedAndReplaced(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "gone"})
	r.mustPut(carillon.Job{Name: "new", Data: carillon.Bytes([]byte("1"), "")})
	r.advance(2 * time.Second)
	r.m.Window.Stage(queueQ, r.now, 1000)
	r.flush()
	gone := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "gone"}
	r.bring(gone)
	if _, err := r.m.Delete(r.now, gone); err != nil {
		t.Fatal(err)
	}
	r.mustPut(carillon.Job{Name: "new", Data: carillon.Bytes([]byte("2"), "")})
	r.flush()
	r.recall()
	ds := r.deliver(10)
	if len(ds) != 1 || string(ds[0].Run.Data.Bytes) != "2" {
		t.Fatalf("got %+v", ds)
	}
}

func TestTriggerBesideTheSchedule(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Paused: true})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	r.bring(key)
	run, err := r.m.Trigger(r.now, key)
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
	if _, err := r.m.Trigger(r.now, key); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.deliver(1)
	r.now += int64(500 * time.Millisecond)
	r.m.Attempts.KeepAll()
	r.flush()
	r.start()
	const wait = time.Second/4 + partition.DefaultTakeoverGrace // a heartbeat and the grace
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
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second}.WithMaxRetries(0)})
	d := r.deliver(1)[0]
	r.failRun(d)
	r.flush()
	dead := r.history("a")
	if len(dead) != 1 || dead[0].Status != carillon.RunDead {
		t.Fatalf("history %+v", dead)
	}
	if _, err := r.m.Redrive(r.now, dead[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Redrive(r.now, dead[0]); !errors.Is(err, carillon.FailedPrecondition) {
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

func TestTTL(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 2s", Due: carillon.In(2 * time.Second), TTL: carillon.In(5 * time.Second)})
	var at []int64
	for range 20 {
		r.advance(time.Second)
		for _, d := range r.deliver(1) {
			at = append(at, (d.Run.Scheduled.UnixNano()-epoch)/int64(time.Second))
			r.succeed(d)
			r.flush()
		}
	}
	if len(at) != 3 || at[0] != 2 || at[1] != 4 || at[2] != 6 || len(r.jobs()) != 0 {
		t.Fatalf("ran at %v, jobs %v", at, r.jobs())
	}
}

func TestRepeats(t *testing.T) {
	for _, j := range []carillon.Job{
		{Name: "a", Schedule: "@every 1s", Repeats: 4},
		{Name: "a", Schedule: "R4/PT3S"},
	} {
		r := newRig(t, partition.Config{})
		r.mustPut(j)
		n := 0
		for range 40 {
			r.advance(time.Second)
			for _, d := range r.deliver(1) {
				n++
				r.succeed(d)
				r.flush()
			}
		}
		if n != 4 || len(r.jobs()) != 0 {
			t.Fatalf("%s: %d runs, %d jobs left", j.Schedule, n, len(r.jobs()))
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	pause := func(p bool) {
		r.bring(key)
		if _, err := r.m.SetPaused(r.now, key, carillon.PauseOptions{Paused: p, Note: "because"}); err != nil {
			t.Fatal(err)
		}
		r.flush()
	}
	pause(true)
	r.advance(35 * time.Second)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("a paused job fires")
	}
	r.start()
	pause(false)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("a resumed job makes up")
	}
	r.advance(5 * time.Second)
	ds := r.deliver(1)
	if len(ds) != 1 {
		t.Fatal("does not go on")
	}
	r.succeed(ds[0])
	r.flush()
	accounted(t, r, "a", 10*time.Second, 4)
}

func TestWindowIsBounded(t *testing.T) {
	const jobs, window = 3000, 256
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range jobs {
		if _, err := r.put(carillon.Job{Name: "j/" + time.Duration(i).String(), Due: carillon.In(time.Duration(jobs-i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			r.flush()
			if n := r.m.Stats().Resident; n > 2*window {
				t.Fatalf("%d in memory", n)
			}
		}
	}
	r.start()
	done := 0
	for done < jobs && r.now < epoch+int64(2*time.Hour) {
		r.advance(10 * time.Second)
		if n := r.m.Stats().Resident; n > 2*window {
			t.Fatalf("%d in memory", n)
		}
		for ds := r.deliver(100); len(ds) > 0; ds = r.deliver(100) {
			for _, d := range ds {
				if late := r.now - d.Run.Due.UnixNano(); late > int64(10*time.Second) {
					t.Fatalf("late by %v", time.Duration(late))
				}
				r.succeed(d)
				done++
			}
			r.flush()
		}
	}
	if done != jobs || len(r.jobs()) != 0 {
		t.Fatalf("%d of %d ran, %d left", done, jobs, len(r.jobs()))
	}
}

func TestLargePayloadsAreReadWhenDue(t *testing.T) {
	r := newRig(t, partition.Config{WindowBytes: 64 << 10})
	big := make([]byte, 16<<10)
	for i := range 50 {
		r.mustPut(carillon.Job{Name: "big" + string(rune('A'+i)), Due: carillon.In(time.Minute), Data: carillon.Bytes(big, "")})
	}
	if b := r.m.Stats().Bytes; b > 64<<10 {
		t.Fatalf("%d bytes of specs in memory", b)
	}
	r.advance(time.Minute)
	done := 0
	for ds := r.deliver(3); len(ds) > 0; ds = r.deliver(3) {
		for _, d := range ds {
			if len(d.Run.Data.Bytes) != len(big) {
				t.Fatal("payload lost")
			}
			r.succeed(d)
			done++
		}
		r.flush()
	}
	if done != 50 {
		t.Fatalf("%d ran", done)
	}
}

func TestTokens(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	tok := partition.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 9}, Generation: 300}, Attempt: 2,
		Run: identity.Run{Partition: 3, UID: carillon.UID{1, 2, 3}, Scheduled: epoch, Cause: carillon.CauseTrigger, Seq: 77},
	}
	s := tok.Sign(key)
	got, err := partition.ParseToken(s, key)
	if err != nil || got != tok {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range len(s) {
		flipped := []byte(s)
		if flipped[i] == 'A' {
			flipped[i] = 'B'
		} else {
			flipped[i] = 'A'
		}
		if forged, err := partition.ParseToken(string(flipped), key); err == nil && forged != tok {
			t.Fatalf("byte %d changed and the token is believed", i)
		}
	}
	if _, err := partition.ParseToken(s, []byte("another key")); err == nil {
		t.Fatal("believed under another key")
	}
}

func TestAPutInThePastFiresOnceAndMissesNothing(t *testing.T) {
	for _, misfire := range []carillon.Misfire{carillon.MisfireLatest, carillon.MisfireAll, carillon.MisfireSkip} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Due: carillon.At(time.Unix(0, epoch).Add(-time.Minute - 3*time.Second)), Misfire: misfire, CatchUpWindow: time.Second})
		ds := r.deliver(5)
		if len(ds) != 1 {
			t.Fatalf("%v: %d runs at once", misfire, len(ds))
		}
		r.succeed(ds[0])
		r.flush()
		if h := r.history("a"); len(h) != 1 {
			t.Fatalf("%v: history %+v", misfire, h)
		}
		r.advance(7*time.Second - 1)
		if ds := r.deliver(5); len(ds) != 0 {
			t.Fatalf("%v: out of phase", misfire)
		}
		r.advance(1)
		if ds := r.deliver(5); len(ds) != 1 {
			t.Fatalf("%v: does not keep the phase of its due time", misfire)
		}
	}
}

func TestAPausedJobFiresNothingThatHasNotBegun(t *testing.T) {
	for _, park := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "once"})
		r.mustPut(carillon.Job{Name: "again", Schedule: "@every 10s"})
		r.advance(12 * time.Second) // both are due, and nobody is there
		if park {
			r.m.Window.Stage(queueQ, r.now, 10)
			r.flush()
		}
		for _, paused := range []bool{true, false} {
			for _, name := range []string{"once", "again"} {
				r.bring(keyOf(name))
				if _, err := r.m.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
					t.Fatal(err)
				}
			}
			r.flush()
			r.recall()
			r.flush()
			if ds := r.deliver(5); paused && len(ds) != 0 {
				t.Fatalf("parked %v: paused jobs fire: %+v", park, ds)
			} else if !paused && (len(ds) != 1 || ds[0].Run.Job != "once") {
				t.Fatalf("parked %v: resumed: %+v", park, ds)
			}
		}
		r.advance(8 * time.Second)
		if ds := r.deliver(5); len(ds) != 1 || ds[0].Run.Job != "again" {
			t.Fatalf("parked %v: does not go on: %+v", park, ds)
		}
	}
}
