package partition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// TestAPauseKeepsTimesOfAnEarlierSchedule pauses a job whose run has waited since before its
// schedule was changed.
func TestAPauseKeepsTimesOfAnEarlierSchedule(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.advance(500 * time.Millisecond)
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	r.advance(10 * time.Second)
	r.mustPut(carillon.Job{Name: "a", Schedule: "* * * * * *"})
	r.pause("a", true)
	r.bring(keyOf("a"))
	if _, err := r.m.Jobs.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{CatchUp: true}); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.bring(keyOf("a"))
	j, err := r.m.Records.Job(keyOf("a"))
	if err != nil || j.Status.NextRun.Nanosecond() != 0 {
		t.Fatalf("the next run is at %v, %v", j.Status.NextRun, err)
	}
	if n := r.passedOver("a"); n[partition.ReasonPaused] != 1 {
		t.Errorf("passed over: %v", n)
	}
}

func TestAPausedJobsEndWaitsForTriggeredRuns(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", TTL: carillon.In(2 * time.Hour),
		Lease: 24 * time.Hour, Paused: true})
	r.trigger("a")
	r.flush()
	d := r.deliver(1)[0]
	r.now += int64(3 * time.Hour)
	r.flush()
	if len(r.jobs()) != 1 {
		t.Fatal("gone before its run ended")
	}
	r.succeed(d)
	r.flush()
	r.advance(time.Hour)
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
}

// TestAPausedJobFiresNothingThatIsOnItsWay pauses a job, or skips its run, while the first attempt waits to
// be durable.
func TestAPausedJobFiresNothingThatIsOnItsWay(t *testing.T) {
	for _, skip := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
		r.advance(10 * time.Second)
		r.m.Deliver(nil, r.now, queueQ, 1, true, nil)
		if skip {
			s, err := r.m.Jobs.Skip(r.now, keyA)
			if err != nil || s.Time.UnixNano() != r.now {
				t.Fatalf("skipped %v, %v", s.Time, err)
			}
		} else if _, err := r.m.Jobs.SetPaused(r.now, keyA, carillon.PauseOptions{Paused: true}); err != nil {
			t.Fatal(err)
		}
		if ds, spare := r.granted(); len(ds) != 0 || len(spare) != 1 {
			t.Fatalf("skip %v: handed out %+v, spare %v", skip, ds, spare)
		}
		s := r.jobs()[0].State
		if want := r.now + 10e9; skip && (s.Next != want || s.Counters.Skipped != 1) || !skip &&
			s.Next != r.now || s.Counters.Fired != 0 || s.Run.Live {
			t.Fatalf("skip %v: %+v", skip, s)
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
	pause := func(p bool) {
		r.bring(key)
		if _, err := r.m.Jobs.SetPaused(r.now, key, carillon.PauseOptions{Paused: p, Note: "because"}); err != nil {
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
				if _, err := r.m.Jobs.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
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

// failOnce has the job's next run fail: it is triggered, since that takes no time.
func (r *rig) failOnce() {
	r.t.Helper()
	run := r.trigger("a")
	r.flush()
	for _, d := range r.deliver(5) {
		if d.Run.ID == run.ID {
			r.failRun(d)
		}
	}
	r.flush()
}

// TestAJobIsPausedAfterFailures: by as many runs in a row as its failure policy says, of whatever cause, also
// over restarts. A success and a resume set the count back.
func TestAJobIsPausedAfterFailures(t *testing.T) {
	for _, exhausted := range []carillon.OnExhausted{carillon.ExhaustedDrop, carillon.ExhaustedDead} {
		r := newRig(t, partition.Config{})
		r.landed = r.wantCounted
		j := carillon.Job{Name: "a", Schedule: "@every 1h", Note: "mine"}
		j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(0)
		j.FailurePolicy.OnExhausted, j.FailurePolicy.PauseAfter = exhausted, 3
		r.mustPut(j)
		want := func(failures uint32, paused bool) {
			t.Helper()
			r.bring(keyA)
			got, err := r.m.Records.Job(keyA)
			if err != nil || got.Status.Failures != failures || got.Paused != paused ||
				paused != strings.Contains(got.Note, "3 runs in a row have failed") {
				t.Fatalf("%v: %d failures, paused %v, %q, %v; want %d, %v", exhausted, got.Status.Failures, got.Paused,
					got.Note, err, failures, paused)
			}
			if told := r.m.Jobs.Paused(); len(told) > 1 || paused != (len(told) == 1 && told[0].Note == got.Note) {
				t.Fatalf("told of %v", told)
			}
		}
		r.failOnce()
		r.failOnce()
		want(2, false)
		r.trigger("a")
		r.flush()
		r.succeed(r.deliver(1)[0])
		r.flush()
		want(0, false)
		r.failOnce()
		r.failOnce()
		r.start()
		want(2, false)
		r.advance(time.Hour)
		r.failRun(r.deliver(1)[0]) // one of its schedule
		r.flush()
		want(3, true)
		r.advance(2 * time.Hour)
		if ds := r.deliver(5); len(ds) != 0 {
			t.Fatalf("a paused job runs: %+v", ds)
		}
		r.failOnce() // by a trigger it can be tried all the same
		if r.bring(keyA); len(r.m.Jobs.Paused()) != 0 {
			t.Error("it is paused twice")
		}
		r.pause("a", false)
		r.m.Jobs.Paused()
		got, err := r.m.Records.Job(keyA)
		if err != nil || got.Paused || got.Status.Failures != 0 || got.Note != "" {
			t.Fatalf("resumed: %+v, %v", got, err)
		}
		r.advance(time.Hour)
		if ds := r.deliver(5); len(ds) != 1 {
			t.Fatalf("after it is resumed: %+v", ds)
		}
	}
}

// TestOnlyRunsThatEndFailedPauseAJob: neither attempts that are followed by another, nor cancelled runs.
func TestOnlyRunsThatEndFailedPauseAJob(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 1h", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(5)}
	j.FailurePolicy.PauseAfter = 1
	r.mustPut(j)
	run := r.trigger("a")
	r.flush()
	for range 5 {
		r.failRun(r.deliver(1)[0])
		r.flush()
		r.advance(time.Second)
	}
	r.bring(keyA)
	id, err := store.ParseRunID(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.m.Jobs.Cancel(r.now, id)
	r.flush()
	if s := r.jobs()[0].State; s.Paused || s.Last.Failures != 0 || s.Last.Status != carillon.RunCancelled {
		t.Errorf("%+v", s)
	}
}

// TestARedrivenRunThatFailsPausesItsJob although neither the job nor its long spec is in memory with it.
func TestARedrivenRunThatFailsPausesItsJob(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 24h", Data: carillon.Bytes(make([]byte, 2*partition.InlineSpec), ""),
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)}
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	r.failOnce()
	j.FailurePolicy.PauseAfter = 2 // the run that is redriven goes by its own spec, and its job by this
	r.mustPut(j)
	r.redrive()
	r.start()
	r.failRun(r.deliver(1)[0])
	r.flush()
	if s := r.jobs()[0].State; !s.Paused || s.Last.Failures != 2 {
		t.Errorf("%+v", s)
	}
}
