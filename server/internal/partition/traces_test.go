package partition_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// spans is a tracer that keeps what it is told. The spans of attempts are in the trace of their cause.
type spans struct{ ended []delivery.EndedAttempt }

func (*spans) Context(a delivery.Attempt) delivery.Trace {
	trace, span := a.IDs()
	if !a.Own && a.Cause.Valid() {
		trace, _ = a.Cause.IDs()
	}
	return delivery.NewTrace(trace, span, 1, "")
}

func (s *spans) Ended(a delivery.EndedAttempt) { s.ended = append(s.ended, a) }

// last returns the span that was made last, and forgets all.
func (s *spans) last(t *testing.T) delivery.EndedAttempt {
	t.Helper()
	if len(s.ended) != 1 {
		t.Fatalf("%d spans were made: %+v", len(s.ended), s.ended)
	}
	a := s.ended[0]
	s.ended = nil
	return a
}

// callOf returns the trace context of a call.
func callOf(n byte) delivery.Trace {
	return delivery.NewTrace([16]byte{n}, [8]byte{n}, 1, "")
}

func tracedRig(t *testing.T) (*rig, *spans) {
	s := &spans{}
	r := newRig(t, partition.Config{Tracer: s})
	r.trace = callOf(1)
	return r, s
}

// retried is a job whose runs are attempted again at once.
func retried(name string) carillon.Job {
	return carillon.Job{Name: name, FailurePolicy: carillon.Constant(0).WithMaxRetries(1)}
}

// one hands out the one run that is due.
func (r *rig) one() delivery.Delivery {
	r.t.Helper()
	ds := r.deliver(10)
	if len(ds) != 1 {
		r.t.Fatalf("%d runs are due", len(ds))
	}
	return ds[0]
}

func TestEachAttemptHasASpan(t *testing.T) {
	r, s := tracedRig(t)
	r.mustPut(retried("a"))
	first := r.one()
	r.advance(time.Second)
	r.failRun(first)
	a := s.last(t)
	if a.RunID != first.Run.ID || a.Number != 1 || a.Cause != callOf(1) || a.Own || a.Job != keyOf("a") ||
		a.Queue != queueQ || a.Ending != delivery.AttemptFailed || a.Message != "no" ||
		a.Started.UnixNano() != epoch || a.Ended.Sub(a.Started) != time.Second || a.Lateness != 0 {
		t.Errorf("%+v", a)
	}
	r.flush()
	second := r.one()
	if second.Trace == first.Trace || second.Trace.Parent()[:35] != first.Trace.Parent()[:35] {
		t.Errorf("the attempts have %s and %s", first.Trace.Parent(), second.Trace.Parent())
	}
	r.succeed(second)
	if a = s.last(t); a.Number != 2 || a.Ending != delivery.AttemptSucceeded || s.Context(a.Attempt) != second.Trace {
		t.Errorf("%+v", a)
	}
}

// TestEveryEndOfAnAttemptMakesASpan, but for attempts that nobody has had.
func TestEveryEndOfAnAttemptMakesASpan(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(r *rig, d delivery.Delivery)
		want delivery.Ending
	}{
		"timeout": {func(r *rig, _ delivery.Delivery) { r.advance(2 * time.Minute) }, delivery.AttemptFailed},
		"lost": {func(r *rig, d delivery.Delivery) { r.m.Lost(r.now, r.token(d.Run.Token), "gone") },
			delivery.AttemptFailed},
		"rescheduled": {func(r *rig, d delivery.Delivery) {
			r.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule, At: time.Unix(0, r.now).Add(time.Hour)})
		}, delivery.AttemptRescheduled},
		"deleted": {func(r *rig, d delivery.Delivery) { _, _ = r.m.Jobs.Delete(r.now, keyOf("a")) },
			delivery.AttemptCancelled},
		"other content": {func(r *rig, d delivery.Delivery) {
			j := retried("a")
			j.Schedule, j.Data, j.Timeout = "@every 1h", carillon.JSON(1), time.Minute
			r.trace = callOf(2)
			r.mustPut(j)
		}, delivery.AttemptCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := tracedRig(t)
			j := retried("a")
			j.Schedule, j.Due, j.Timeout = "@every 1h", carillon.In(0), time.Minute
			r.mustPut(j)
			d := r.one()
			c.end(r, d)
			if a := s.last(t); a.Ending != c.want || a.Number != 1 || a.Cause != callOf(1) || !a.Own ||
				s.Context(a.Attempt) != d.Trace {
				t.Errorf("%+v", a)
			}
		})
	}
	r, s := tracedRig(t)
	r.mustPut(retried("a"))
	r.m.Attempts.Undelivered(r.now, r.token(r.one().Run.Token))
	if len(s.ended) > 0 {
		t.Errorf("an attempt that nobody has had: %+v", s.ended)
	}
}

// TestAnAttemptKeepsItsSpanThroughACrash, whether the store knows of it or not. In doubt it is made again, if
// its consumer has died as well.
func TestAnAttemptKeepsItsSpanThroughACrash(t *testing.T) {
	for name, c := range map[string]struct {
		old   time.Duration
		again bool
	}{"known": {3 * time.Second, false}, "in doubt": {0, false}, "made again": {0, true}} {
		t.Run(name, func(t *testing.T) {
			r, s := tracedRig(t)
			r.mustPut(retried("a"))
			r.failRun(r.one())
			s.last(t)
			r.flush()
			r.advance(5 * time.Second)
			d, at := r.one(), r.now
			r.advance(c.old)
			r.kill(0)
			if c.again {
				if again := r.again(d); again.Trace != d.Trace {
					t.Errorf("it was %s and is %s", d.Trace.Parent(), again.Trace.Parent())
				}
				at = r.now
			} else if c.old == 0 {
				at = d.Run.Due.UnixNano() // nobody wrote when it was handed out
			}
			r.succeed(d)
			a := s.last(t)
			if s.Context(a.Attempt) != d.Trace || a.Cause != callOf(1) || a.Number != 2 {
				t.Errorf("%+v", a)
			}
			if a.Started.UnixNano() != at {
				t.Errorf("it started at %v, not %v", a.Started, time.Unix(0, at).UTC())
			}
		})
	}
}

// TestAPutThatChangesSomethingReplacesTheTrace, and one that changes nothing does not.
func TestAPutThatChangesSomethingReplacesTheTrace(t *testing.T) {
	r, s := tracedRig(t)
	j := carillon.Job{Name: "a", Schedule: "@every 1h"}
	r.mustPut(j)
	run := func() delivery.Trace {
		r.advance(time.Hour)
		r.succeed(r.one())
		return s.last(t).Cause
	}
	r.trace = callOf(2)
	if r.mustPut(j); run() != callOf(1) {
		t.Error("a put that changes nothing has replaced the trace")
	}
	j.Note = "changed"
	if r.mustPut(j); run() != callOf(2) {
		t.Error("a put that changes the note has not")
	}
	if _, err := r.m.Jobs.Patch(r.now, 0, keyOf("a"), carillon.Patch{Fields: []string{"note"}}, callOf(3)); err != nil {
		t.Fatal(err)
	}
	if r.flush(); run() != callOf(3) {
		t.Error("a patch has not")
	}
}

// TestTheRunsBesideAJobsOwnHaveATrace: a triggered one that of its trigger, others that of the put.
func TestTheRunsBesideAJobsOwnHaveATrace(t *testing.T) {
	r, s := tracedRig(t)
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Overlap: carillon.OverlapAllow,
		Lease: 24 * time.Hour})
	r.trace = callOf(2)
	r.trigger("a")
	r.flush()
	r.restart()
	r.succeed(r.one())
	if a := s.last(t); a.Cause != callOf(2) || a.Own || a.Trigger != carillon.CauseTrigger {
		t.Errorf("a triggered run: %+v", a)
	}
	r.advance(time.Hour)
	r.one()
	r.advance(time.Hour)
	beside := r.deliver(10)
	if len(beside) == 0 {
		t.Fatal("nothing runs beside the first")
	}
	r.succeed(beside[0])
	if a := s.last(t); a.Cause != callOf(1) || !a.Own {
		t.Errorf("a run beside another: %+v", a)
	}
}

// TestARedrivenRunKeepsItsTrace, also when its job is gone.
func TestARedrivenRunKeepsItsTrace(t *testing.T) {
	for _, recurring := range []bool{false, true} {
		r, s := tracedRig(t)
		j := carillon.Job{Name: "a", FailurePolicy: carillon.Constant(0).WithMaxRetries(0)}
		j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
		if recurring {
			j.Schedule, j.Due = "@every 1h", carillon.In(0)
		}
		r.mustPut(j)
		r.failRun(r.one())
		died := s.last(t)
		r.flush()
		if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
			t.Fatal(err)
		}
		r.flush()
		r.succeed(r.one())
		if a := s.last(t); a.Cause != callOf(1) || a.RunID != died.RunID || a.Own != recurring || a.Number != 2 {
			t.Errorf("%+v", a)
		}
	}
}

// TestWithoutATracerTheTraceIsPassedOn: that of the call, or one of the run's own with a recurring job.
func TestWithoutATracerTheTraceIsPassedOn(t *testing.T) {
	r := newRig(t, partition.Config{})
	metadata := map[string]string{"mine": "1"}
	get := func(j carillon.Job) delivery.Delivery {
		j.Metadata = maps.Clone(metadata)
		r.mustPut(j)
		d := r.one()
		r.succeed(d)
		r.flush()
		return d
	}
	if d := get(carillon.Job{Name: "none"}); d.Trace != "" || !maps.Equal(d.Run.Metadata, metadata) {
		t.Errorf("a job that was put in no trace: %q %v", d.Trace, d.Run.Metadata)
	}
	r.trace = delivery.NewTrace([16]byte{1}, [8]byte{1}, 1, "a=1")
	d := get(carillon.Job{Name: "once"})
	if want := map[string]string{"mine": "1", "traceparent": r.trace.Parent(), "tracestate": "a=1"}; d.Trace != r.trace ||
		!maps.Equal(d.Run.Metadata, want) {
		t.Errorf("a one-shot: %q %v", d.Trace, d.Run.Metadata)
	}
	d = get(carillon.Job{Name: "often", Schedule: "@every 1h", Due: carillon.In(0)})
	trace, _ := d.Trace.IDs()
	if theirs, _ := r.trace.IDs(); trace == theirs || !d.Trace.Sampled() || d.Trace.State() != "" {
		t.Errorf("a recurring job: %q", d.Trace.Parent())
	}
	metadata[delivery.TraceParentKey] = "the author's"
	if d = get(carillon.Job{Name: "own"}); !maps.Equal(d.Run.Metadata, metadata) {
		t.Errorf("a job with a trace of its author's: %v", d.Run.Metadata)
	}
	names := func(d delivery.Delivery) []string { return slices.Sorted(maps.Keys(d.Run.Metadata)) }
	r.mustPut(carillon.Job{Name: "http", Target: carillon.HTTP("http://example.com/"),
		Metadata: map[string]string{"a": "1"}})
	r.step()
	ds, _ := r.m.Deliver(nil, r.now, delivery.Queue{Namespace: "default", Kind: "http", Address: "example.com"}, 1, false, nil)
	if len(ds) != 1 || ds[0].Trace != r.trace || len(names(ds[0])) != 1 {
		t.Errorf("an HTTP target: %+v", ds)
	}
}
