package partition_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// ofJob returns why the job does not run.
func (r *rig) ofJob(name string) *partition.Hold {
	r.bring(keyOf(name))
	return r.m.Held.OfJob(keyOf(name), r.now)
}

func TestAJobSaysWhyItDoesNotRun(t *testing.T) {
	in := func(d time.Duration) string { return time.Unix(0, epoch).UTC().Add(d).Format(time.RFC3339) }
	fails := carillon.Job{FailurePolicy: carillon.Constant(time.Hour)}
	for name, c := range map[string]struct {
		job        carillon.Job
		then       func(r *rig)
		code, text string // text: what it must say
	}{
		"not due": {carillon.Job{Due: carillon.In(time.Hour)}, nil, "not_due", "is due at " + in(time.Hour)},
		"not due, in the middle of a schedule": {carillon.Job{Schedule: "@every 1m"}, func(r *rig) {
			r.advance(90 * time.Second)
			r.succeed(r.deliver(1)[0])
			r.flush()
		}, "not_due", in(2 * time.Minute)},
		"paused, and says why": {carillon.Job{Schedule: "@every 1s", Paused: true, Note: "moving\nhouse"}, func(r *rig) {
			r.advance(time.Minute)
		}, "paused", "the job is paused: moving house"},
		"paused without a note": {carillon.Job{Schedule: "@every 1s", Paused: true}, nil, "paused", "the job is paused"},
		"depends on another": {carillon.Job{DependsOn: []string{"x", "y", "z", "u", "v"}}, nil, "depends_on",
			`for a success of jobs "x", "y", "z" and 2 more`},
		"depends on one": {carillon.Job{DependsOn: []string{"x"}}, func(r *rig) { r.advance(time.Hour) }, "depends_on",
			`for a success of job "x"`},
		"depends on another, later": {carillon.Job{DependsOn: []string{"x"}, Due: carillon.In(time.Hour)}, nil, "not_due",
			in(time.Hour)},
		"retrying": {fails, func(r *rig) {
			r.failRun(r.deliver(1)[0])
			r.flush()
		}, "retrying", "attempt 1 failed: no; the next one is due at " + in(time.Hour)},
		"put off": {fails, func(r *rig) {
			r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeReschedule,
				At: time.Unix(0, epoch).Add(2 * time.Hour)})
			r.flush()
		}, "retrying", "attempt 1 was put off: the next one is due at " + in(2*time.Hour)},
		"put off because of something": {fails, func(r *rig) {
			r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeReschedule,
				At: time.Unix(0, epoch).Add(2 * time.Hour), Message: "its payload\ncannot be read"})
			r.flush()
		}, "retrying", "attempt 1 was put off: its payload cannot be read; the next one is due at " + in(2*time.Hour)},
		"put off after a report of progress": {fails, func(r *rig) {
			d := r.deliver(1)[0]
			r.report(d, carillon.Result{Outcome: carillon.OutcomeProgress, Progress: carillon.Progress{Message: "half"}})
			r.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule, At: time.Unix(0, epoch).Add(2 * time.Hour)})
			r.flush()
		}, "retrying", "attempt 1 was put off: the next one is due at " + in(2*time.Hour)},
		"serial, after one that goes on": {carillon.Job{Schedule: "@every 1m"}, func(r *rig) {
			r.advance(time.Minute)
			r.deliver(1)
			r.advance(61 * time.Second)
		}, "overlap", "the run of " + in(2*time.Minute) + " waits for the end of that of " + in(time.Minute)},
		"running": {carillon.Job{}, func(r *rig) { r.deliver(1) }, "", ""},
		"running, with a next time": {carillon.Job{Schedule: "@every 1m"}, func(r *rig) {
			r.advance(time.Minute)
			r.deliver(1)
		}, "", ""},
		"times during a run are skipped": {carillon.Job{Schedule: "@every 1m", Overlap: carillon.OverlapSkip}, func(r *rig) {
			r.advance(time.Minute)
			r.deliver(1)
			r.advance(61 * time.Second)
		}, "", ""},
		"about to be made durable": {carillon.Job{}, func(r *rig) {
			if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
				r.t.Fatal(err)
			}
			r.pauseLater("a", true)
			r.pauseLater("a", false)
		}, "starting", "about to be handed out"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			c.job.Name = "a"
			r.mustPut(c.job)
			if c.then != nil {
				c.then(r)
			}
			hold := r.ofJob("a")
			if c.code == "" {
				if hold != nil {
					t.Fatalf("%+v", hold)
				}
				return
			}
			if hold == nil || hold.Code != c.code || !strings.Contains(hold.Text, c.text) {
				t.Fatalf("%+v, want %s: %s", hold, c.code, c.text)
			}
			if !hold.Until.IsZero() && hold.Until.UnixNano() <= r.now {
				t.Errorf("it ended at %v", hold.Until)
			}
			if hold.Since.UnixNano() > r.now {
				t.Errorf("it begins at %v", hold.Since)
			}
		})
	}
}

// TestAJobThatHasWaitedStarts: all that it waits for has succeeded, and its next round lets it go on.
func TestAJobThatHasWaitedStarts(t *testing.T) {
	s := store.State{Phase: carillon.PhaseWaiting, Next: epoch, Waits: []store.Wait{{Name: "z", Open: true}}}
	for _, waits := range [][]store.Wait{s.Waits, nil} {
		s.Waits = waits
		if hold := storedHold(&carillon.Job{}, &s, epoch+1); hold == nil || hold.Code != "starting" {
			t.Errorf("%d waits: %+v", len(waits), hold)
		}
	}
}

func TestADueRunSaysWhereItWaits(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch).Add(-time.Hour))})
	for _, staged := range []bool{false, true} {
		if staged {
			r.now += 2e9
			r.m.Window.Stage(queueQ, r.now, 1)
			r.flush()
		}
		hold := r.ofJob("a")
		if hold == nil || hold.Queue != queueQ || hold.Line.Key != "" || hold.Since.UnixNano() != epoch {
			t.Errorf("staged %v: %+v", staged, hold)
		}
		j, err := r.m.Records.Job(keyA)
		if err != nil {
			t.Fatal(err)
		}
		id, err := store.ParseRunID(j.Status.Current.ID)
		if err != nil {
			t.Fatal(err)
		}
		if run := r.m.Held.OfRun(id, r.now); run == nil || run.Queue != queueQ {
			t.Errorf("staged %v: the run says %+v", staged, run)
		}
	}
}

func TestARunSaysForWhichLimitItWaits(t *testing.T) {
	r, c := limited(t, 1, partition.Config{})
	for _, name := range []string{"a", "b", "c", "d"} {
		r.mustPut(carillon.Job{Name: name, ConcurrencyKey: "k"})
		r.now += 1e9
	}
	r.step()
	r.m.Deliver(nil, r.now, queueQ, 10, false, nil)
	r.flush()
	if c.inForce != 1 || r.ofJob("a") != nil {
		t.Fatalf("%d in force, a: %+v", c.inForce, r.ofJob("a"))
	}
	for i, name := range []string{"b", "c", "d"} {
		hold := r.ofJob(name)
		if hold == nil || hold.Line != lineQ || hold.Before != i || (hold.First.Name == "b") != (i > 0) {
			t.Errorf("%s: %+v", name, hold)
		}
	}
	r.now += 2e9
	if n := r.m.Window.StageAside(r.now, 1); n != 1 {
		t.Fatal("nothing was parked")
	}
	r.flush()
	if hold := r.ofJob("d"); hold == nil || hold.Line != lineQ || hold.Before != 2 || hold.Order == 0 {
		t.Errorf("parked: %+v", hold)
	}
}

// TestAStoredStateSaysWhatItCan, without the machine that runs it.
func TestAStoredStateSaysWhatItCan(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	r.mustPut(carillon.Job{Name: "b"})
	r.now += 2e9
	r.m.Window.Stage(queueQ, r.now, 1)
	r.flush()
	records := r.jobs()
	if hold := storedHold(&carillon.Job{}, &records[0].State, r.now); hold == nil || hold.Code != "not_due" {
		t.Errorf("a: %+v", hold)
	}
	if hold := storedHold(&carillon.Job{}, &records[1].State, r.now); hold == nil || hold.Queue != queueQ {
		t.Errorf("b: %+v", hold)
	}
	paused := records[0].State
	paused.Paused = true
	if hold := storedHold(&carillon.Job{Note: "n"}, &paused, r.now); hold == nil || hold.Text != "the job is paused: n" {
		t.Errorf("paused: %+v", hold)
	}
}

// Ask checks that a job with something to come either has an attempt in force or says why not.
func (w *randomRig) Ask(*rapid.T) {
	key := keyOf(w.someName())
	w.bring(key)
	hold := w.m.Held.OfJob(key, w.now)
	j, err := w.m.Records.Job(key)
	if err != nil {
		return // there is no such job
	}
	s := j.Status
	running := s.Current != nil && s.Current.Status == carillon.RunRunning
	waits := s.Current != nil || !s.NextRun.IsZero()
	switch {
	case hold == nil && waits && !running:
		w.t.Fatalf("%s does not say why it waits: %+v", key.Name, s)
	case hold == nil:
		return
	case running && hold.Code != carillon.HoldOverlap:
		w.t.Fatalf("%s runs, and says why not: %+v", key.Name, hold)
	case hold.Code == "" && hold.Queue == (delivery.Queue{}) && hold.Line == (delivery.Line{}):
		w.t.Fatalf("%s waits, and says nothing: %+v", key.Name, hold)
	case hold.Code != "" && hold.Text == "":
		w.t.Fatalf("%s gives no reason: %+v", key.Name, hold)
	}
	if s.Current == nil {
		return
	}
	id, err := store.ParseRunID(s.Current.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	if of := w.m.Held.OfRun(id, w.now); running != (of == nil) {
		w.t.Fatalf("run %s of %s, running %v, says %+v", id, key.Name, running, of)
	}
}

// storedHold is [partition.StoredHold] of a job with its status.
func storedHold(j *carillon.Job, s *store.State, now int64) *partition.Hold {
	partition.StatusOf(j, s, 0)
	return partition.StoredHold(j, s, now)
}
