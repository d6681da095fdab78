package partition_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// second returns the scheduled time of a run, in seconds after the rig's beginning.
func second(d delivery.Delivery) int {
	return int((d.Run.Scheduled.UnixNano() - epoch) / int64(time.Second))
}

// long is a payload that is not kept in memory while its job waits.
var long = carillon.Bytes(make([]byte, 2<<10), "")

func TestUnderAllowRunsGoBesideEachOther(t *testing.T) {
	for _, data := range []carillon.Data{{}, long} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapAllow, Repeats: 4,
			Lease: 30 * time.Hour, Data: data,
			FailurePolicy: carillon.Constant(25 * time.Second).WithMaxRetries(5)})
		r.advance(10 * time.Second)
		first := r.deliver(5)
		if len(first) != 1 {
			t.Fatalf("got %+v", first)
		}
		r.failRun(first[0]) // waits until 35
		r.flush()
		r.start()
		r.advance(10 * time.Second)
		second20 := r.deliver(5)
		if len(second20) != 1 || second(second20[0]) != 20 || second20[0].Run.Attempt != 1 {
			t.Fatalf("at 20: %+v", second20)
		}
		r.advance(2 * time.Second) // the grant is written
		r.start()
		r.advance(8 * time.Second)
		third := r.deliver(5)
		if len(third) != 1 || second(third[0]) != 30 {
			t.Fatalf("at 30: %+v", third)
		}
		r.advance(5 * time.Second)
		retried := r.deliver(5)
		if len(retried) != 1 || second(retried[0]) != 10 || retried[0].Run.Attempt != 2 {
			t.Fatalf("at 35: %+v", retried)
		}
		r.advance(5 * time.Second)
		ds := append(r.deliver(5), append(append(second20, third...), retried...)...)
		if len(ds) != 4 {
			t.Fatalf("%d of 4", len(ds))
		}
		for _, d := range ds {
			if v := r.succeed(d); v != partition.Accepted {
				t.Fatalf("%v: %v", d.Run.Scheduled, v)
			}
			r.flush()
		}
		if jobs := r.jobs(); len(jobs) != 0 || r.m.Stats() != (partition.Stats{}) {
			t.Fatalf("left: %+v %+v", jobs, r.m.Stats())
		}
		accounted(t, r, "a", 10*time.Second, 4)
	}
}

func TestUnderReplaceTheNextRunEndsTheOneBefore(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, data := range []carillon.Data{{}, long} {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapReplace,
				Lease: 30 * time.Hour, Data: data})
			r.advance(10 * time.Second)
			first := r.deliver(5)[0]
			r.advance(5 * time.Second)
			if restart {
				r.start()
			}
			r.advance(5 * time.Second)
			next := r.deliver(5)
			if len(next) != 1 || second(next[0]) != 20 {
				t.Fatalf("at 20: %+v", next)
			}
			if len(r.cancels) != 1 || r.cancels[0].Token != first.Run.Token {
				t.Fatalf("told to stop: %+v", r.cancels)
			}
			if v := r.succeed(first); v != partition.Stale {
				t.Fatalf("its late result is %v", v)
			}
			r.advance(2 * time.Second)
			r.failRun(next[0]) // waits for its next attempt, at 23
			r.flush()
			r.advance(500 * time.Millisecond)
			r.advance(8 * time.Second) // nobody took 23
			h := r.history("a")
			if len(h) != 2 || h[0].Status != carillon.RunCancelled || h[1].Status != carillon.RunCancelled ||
				h[0].Reason != partition.ReasonOverlap {
				t.Fatalf("history %+v", h)
			}
		}
	}
}

func TestUnderReplaceARunWithoutAttemptIsSkipped(t *testing.T) {
	for _, staged := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapReplace, Data: long})
		r.advance(13 * time.Second)
		if staged {
			r.m.Window.Stage(queueQ, r.now, 10)
			r.flush()
			if n := r.m.Stats().Resident; n != 1 { // its next time is near
				t.Fatalf("%d in memory", n)
			}
			r.restart()
		}
		r.advance(10 * time.Second)
		r.recall()
		ds := r.deliver(5)
		if len(ds) != 1 || second(ds[0]) != 20 {
			t.Fatalf("staged %v: %+v", staged, ds)
		}
		h := r.history("a")
		if len(h) != 1 || h[0].Status != carillon.RunSkipped || h[0].Reason != partition.ReasonOverlap ||
			h[0].ID.Scheduled != epoch+10e9 {
			t.Fatalf("history %+v", h)
		}
		r.bring(keyOf("a"))
		j, err := r.m.Records.Job(keyOf("a"))
		if err != nil || j.Status.Counters != (carillon.Counters{Fired: 1, Skipped: 1, Late: 1}) {
			t.Fatalf("counters %+v", j.Status.Counters)
		}
	}
}

func TestTheNumberOfRunsBesideAJobIsLimited(t *testing.T) {
	r := newRig(t, partition.Config{WindowJobs: 2 * carillon.MaxPending})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Overlap: carillon.OverlapAllow})
	for range carillon.MaxPending {
		r.trigger("a")
	}
	r.flush()
	if _, err := r.m.Jobs.Trigger(r.now, keyOf("a"), carillon.TriggerOptions{}); !errors.Is(err, carillon.ResourceExhausted) ||
		!strings.Contains(err.Error(), "10000") {
		t.Fatalf("one more: %v", err)
	}
	r.advance(4 * time.Hour) // the first is in the job's own record, for the others there is no place
	h := r.history("a")
	if len(h) != 3 || h[0].Reason != partition.ReasonOverlap || h[0].Skipped != 1 {
		t.Fatalf("history %+v", h)
	}
}

func (r *rig) skip(name string) (carillon.SkipResult, error) {
	r.bring(keyOf(name))
	s, err := r.m.Jobs.Skip(r.now, keyOf(name))
	r.flush()
	return s, err
}

func TestSkip(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "once", Due: carillon.In(time.Hour)})
	if _, err := r.skip("once"); !errors.Is(err, carillon.FailedPrecondition) ||
		!strings.Contains(err.Error(), "delete") {
		t.Fatalf("a one-shot: %v", err)
	}
	if _, err := r.skip("none"); !errors.Is(err, carillon.NotFound) {
		t.Fatalf("no job: %v", err)
	}
	for _, paused := range []bool{false, true} {
		name := fmt.Sprint(paused)
		r.mustPut(carillon.Job{Name: name, Schedule: "@every 10s", Paused: paused, TTL: carillon.In(time.Minute)})
		put := r.now
		for i := range int64(6) {
			s, err := r.skip(name)
			if err != nil || s.Time.UnixNano() != put+(i+1)*10e9 ||
				(i < 5) != (s.Job.Status.NextRun.UnixNano() == put+(i+2)*10e9 || (paused && i < 5)) {
				t.Fatalf("skip %d: %+v %v", i, s, err)
			}
			r.start()
		}
		if _, err := r.skip(name); !errors.Is(err, carillon.NotFound) {
			t.Fatalf("nothing was left of it: %v", err)
		}
		h := r.history(name)
		if len(h) != 6 || h[0].Status != carillon.RunSkipped || h[0].Reason != partition.ReasonSkipped ||
			h[0].Skipped != 1 {
			t.Fatalf("history %+v", h)
		}
	}
}

func TestSkipOfARunThatHasBegun(t *testing.T) {
	for _, staged := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Data: long})
		r.advance(12 * time.Second)
		if staged {
			r.m.Window.Stage(queueQ, r.now, 10)
			r.flush()
			r.restart()
		}
		s, err := r.skip("a")
		if err != nil || s.Time.UnixNano() != epoch+10e9 || s.Job.Status.Counters.Skipped != 1 {
			t.Fatalf("staged %v: %+v %v", staged, s, err)
		}
		r.recall()
		if ds := r.deliver(5); len(ds) != 0 {
			t.Fatalf("it runs: %+v", ds)
		}
		r.advance(8 * time.Second)
		ds := r.deliver(5)
		if len(ds) != 1 || second(ds[0]) != 20 {
			t.Fatalf("at 20: %+v", ds)
		}
		if s, err = r.skip("a"); err != nil || s.Time.UnixNano() != epoch+30e9 || s.Job.Status.Current == nil {
			t.Fatalf("while 20 has an attempt: %+v %v", s, err)
		}
		r.succeed(ds[0])
		r.advance(20 * time.Second)
		if ds := r.deliver(5); len(ds) != 1 || second(ds[0]) != 40 {
			t.Fatalf("at 40: %+v", ds)
		}
	}
}

func TestWhatNeverLeftIsNotLate(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	r.advance(time.Hour + 3*time.Second)
	for range 2 {
		d := r.deliver(1)[0]
		tok, err := message.ParseToken(d.Run.Token, r.store.Meta().MACKey)
		if err != nil {
			t.Fatal(err)
		}
		r.m.Attempts.Undelivered(r.now, tok)
		r.flush()
		if j, _ := r.m.Records.Job(keyOf("a")); j.Status.Counters != (carillon.Counters{}) {
			t.Fatalf("counters %+v", j.Status.Counters)
		}
	}
}

// TestAPauseEndsWhatLaterTimesHavePassed pauses a job of which two runs wait for a consumer, one beside the
// other.
func TestAPauseEndsWhatLaterTimesHavePassed(t *testing.T) {
	for _, repeats := range []uint64{0, 2} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapAllow, Repeats: repeats})
		r.advance(25 * time.Second)
		r.pause("a", true)
		if ds := r.deliver(5); len(ds) != 0 {
			t.Fatalf("got %+v", ds)
		}
		r.flush()
		accounted(t, r, "a", 10*time.Second, 2)
		if n := r.passedOver("a"); n[partition.ReasonPaused] != 2 {
			t.Fatalf("passed over: %v", n)
		}
		// No consumer has had a run.
		if jobs := r.jobs(); len(jobs) != 1 || jobs[0].State.Next != epoch+30e9 || jobs[0].State.Begun != 0 {
			t.Fatalf("repeats %d: left %+v", repeats, jobs)
		}
	}
}

// TestAPutDoesNotRunATimeAgainThatHasBegun gives a job an end of life while the newest of its times runs
// beside its own run.
func TestAPutDoesNotRunATimeAgainThatHasBegun(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		j := carillon.Job{Name: "a", Schedule: "@every 10s", Due: carillon.At(time.Unix(0, epoch+10e9)),
			Overlap: carillon.OverlapAllow}
		r.mustPut(j)
		r.advance(20 * time.Second)
		if ds := r.deliver(5); len(ds) != 2 {
			t.Fatalf("got %+v", ds)
		}
		r.advance(2 * time.Second)
		if restart {
			r.start()
		}
		j.TTL = carillon.In(time.Hour)
		r.mustPut(j)
		ds := r.deliver(5) // both as their next attempts
		if len(ds) != 2 || ds[0].Run.Attempt != 2 || ds[1].Run.Attempt != 2 {
			t.Fatalf("restart %v: %+v", restart, ds)
		}
		for _, d := range ds {
			r.succeed(d)
		}
		r.flush()
		accounted(t, r, "a", 10*time.Second, 2)
	}
}

// TestUnderReplaceTheNewestOfManyTimesRuns: each of the others would be replaced by the next at once.
func TestUnderReplaceTheNewestOfManyTimesRuns(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapReplace,
		Misfire: carillon.Misfire{Rule: carillon.MisfireAll}})
	r.now += int64(68 * time.Second)
	r.start()
	r.flush()
	if got := r.workOff(); len(got) != 1 || got[0] != 60 {
		t.Fatalf("ran %v", got)
	}
	if h := r.history("a"); len(h) != 2 || h[1].Reason != partition.ReasonOverlap || h[1].Skipped != 5 {
		t.Fatalf("history %+v", h)
	}
}

// TestRunsBesideEachOtherDoNotFillMemory catches up on many times at once with a consumer that takes only a
// few at a time.
func TestRunsBesideEachOtherDoNotFillMemory(t *testing.T) {
	const window, times = 16, 500
	r := newRig(t, partition.Config{WindowJobs: window})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Overlap: carillon.OverlapAllow,
		Misfire: carillon.Misfire{Rule: carillon.MisfireAll}, History: carillon.History{Runs: 10_000}})
	r.now += int64(times*time.Hour + time.Minute)
	r.start()
	r.flush()
	for range times / 4 {
		if n := r.m.Stats().Resident; n > 2*window+2 {
			t.Fatalf("%d in memory", n)
		}
		for _, d := range r.deliver(5) {
			r.succeed(d)
		}
		r.advance(2 * time.Second)
	}
	accounted(t, r, "a", time.Hour, times)
	if n := r.passedOver("a"); len(n) != 0 {
		t.Fatalf("did not run: %v", n)
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
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s",
		Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}})
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	r.advance(12 * time.Second)
	r.succeed(d)
	r.flush()
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(20*time.Second) {
		t.Fatalf("the time that waited does not run: %+v", ds)
	}
}
