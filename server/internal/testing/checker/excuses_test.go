package checker

import (
	"testing"
	"time"
)

// moved sets when an attempt came and ended well.
func (t *tale) moved(i int, at float64) {
	t.Attempts[i].At, t.Results[i].Sent, t.Results[i].Told = sec(at), sec(at+0.1), sec(at+0.11)
}

// skewed is a job one of whose runs came while the clock was wrong.
func skewed(by time.Duration, at float64) func() *tale {
	return func() *tale {
		t := steady("a")
		t.Faults = []Fault{{Kind: "clock", From: sec(18), To: sec(22), Skew: by}}
		t.moved(1, at)
		return t
	}
}

// refused is a job whose endpoint was down when it was due.
func refused() *tale {
	t := steady("a")
	t.Ops[0].Spec.Queue = "http://h/run"
	t.Faults = []Fault{{Kind: "worker endpoint down", Targets: []string{"h"}, From: sec(18), To: sec(22)}}
	t.moved(1, 24)
	return t
}

// unheard is a job whose second put kept its phase, and did not say so.
func unheard() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
	t.ran("a", 10, 10.1)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "q", KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", Changed: true}}, 12, 12.1)
	for s := 20.0; s < 60; s += 10 {
		t.attempt("a", s, s+0.1, 1).Payload = "q"
		t.said(Success, s+0.2)
	}
	f := t.is("a")
	f.Generation, f.Payload = 2, "q"
	return t
}

// caughtUp is a job that is resumed with the times that passed, which are made up for, or not.
func caughtUp(misfire string) func() *tale {
	return func() *tale {
		t := paused()
		t.Ops[0].Spec.Misfire, t.Ops[2].CatchUp = misfire, true
		t.Ops[2].Invoke, t.Ops[2].Return = sec(43), sec(43.1)
		t.Final.Runs[0].Reason, t.Final.Runs[0].Finished = "misfire", sec(43.05)
		if misfire == "all" {
			t.Final.Runs = nil
			for s := 20.0; s <= 40; s += 10 {
				t.ran("a", s, 45+s/40)
			}
		}
		return t
	}
}

// passed is a job one of whose times was skipped by hand.
func passed() *tale {
	t := steady("a")
	t.drop("a@30")
	t.op(Op{Kind: Skip, Job: "a", Answer: Answer{NextRun: sec(30)}}, 25, 25.1)
	t.skipped("a", "skipped", 30, 30, 1, 25.05)
	return t
}

// revivedRun is a one-shot that died and was redriven.
func revivedRun() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p"}, 0, 5)
	t.attempt("a", 5, 5.1, 1)
	t.said(Permanent, 5.5)
	t.op(Op{Kind: Redrive, Job: "a", RunID: "a@5"}, 10, 10.1)
	t.attempt("a", 5, 10.2, 1).Token = "again"
	t.said(Success, 10.4)
	return t
}

// broughtBack is a recurring job that was put twice and deleted, and was there again as long as a dead run of
// it was tried again.
func broughtBack() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "old"}, 0, 10)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "p", KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(10), Changed: true}}, 1, 1.1)
	t.attempt("a", 10, 10.1, 1)
	t.said(Permanent, 10.5)
	t.op(Op{Kind: Delete, Job: "a"}, 15, 15.1)
	t.op(Op{Kind: Redrive, Job: "a"}, 20, 20.1)
	t.attempt("a", 10, 20.2, 1).Token = "again"
	t.said(Success, 23)
	t.ended("a", "succeeded", 10, 23)
	t.op(Op{Kind: List, Answer: Answer{Listed: []Listed{{Namespace: "n", Job: "a", Payload: "p"}}}}, 22, 22.1)
	return t
}

// thereAgain is the same, where the run that was tried again goes on at the end.
func thereAgain() *tale {
	t := broughtBack()
	t.Results, t.Final.Runs = t.Results[:1], nil
	t.Ops[3].Invoke, t.Ops[3].Return = sec(58), sec(58.1)
	t.Ops[4].Invoke, t.Ops[4].Return = sec(59), sec(59.1)
	t.Attempts[1].At = sec(58.2)
	t.is("a").Generation = 3
	return t
}

// outlived is a job whose life was counted by a clock that was behind when it was put, and which was put
// again when it was right.
func outlived() *tale {
	t := newTale()
	job := Job{Schedule: "@every 10s", TTL: 29 * time.Second, Payload: "p", KeepRuns: 1000}
	t.put("a", job, 2, 9.5)
	again := job
	again.Misfire = "all"
	t.op(Op{Kind: Put, Job: "a", Spec: &again,
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(19.5), Changed: true}}, 12, 12.1)
	t.ran("a", 9.5, 9.6)
	t.ran("a", 19.5, 19.6)
	t.Faults = []Fault{{Kind: "clock", From: sec(1), To: sec(3), Skew: -2500 * time.Millisecond}}
	return t
}

// spaced is a job that was put again with a spread, and one of whose runs took so long that the next two
// times had come.
func spaced() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Lease: time.Minute}, 0, 10)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Jitter: 5 * time.Second, Payload: "p",
		Lease: time.Minute, KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(10), Changed: true}}, 3, 3.1)
	t.attempt("a", 10, 14.1, 1)
	t.said(Success, 31)
	t.ran("a", 20, 31.1)
	for s := 30.0; s < 60; s += 10 {
		t.ran("a", s, s+4.1)
	}
	t.is("a").Generation = 2
	return t
}

// triggeredBack is a one-shot that died, was put again with another policy and ran, and was there as it first
// was for a redrive, when it was triggered.
func triggeredBack() *tale {
	two := 2
	t := newTale()
	t.put("a", Job{Payload: "p", Policy: Policy{Kind: "constant", Interval: time.Second, MaxRetries: &two}}, 0,
		5)
	t.attempt("a", 5, 5.1, 1)
	t.said(Permanent, 5.5)
	t.put("a", Job{Payload: "q", Policy: Policy{Kind: "drop"}}, 6, 7).Answer.UID = "ub"
	t.attempt("a", 7, 7.1, 1).Payload = "q"
	t.said(Success, 7.2)
	t.op(Op{Kind: Redrive, Job: "a", RunID: "a@5"}, 10, 10.1)
	t.op(Op{Kind: Trigger, Job: "a", Answer: Answer{RunID: "a@11"}}, 11, 11.1)
	t.attempt("a", 5, 10.2, 1).Token = "again"
	t.said(Success, 13)
	t.attempt("a", 11, 11.2, 1).Cause = CauseTrigger
	t.said(Failure, 11.3)
	t.attempt("a", 11, 12.4, 2).Cause = CauseTrigger
	t.said(Success, 12.5)
	return t
}

// besideEarly is a job two runs of which went on side by side when the clock was ahead, as they were allowed
// to then.
func besideEarly() *tale {
	t := newTale()
	job := Job{Schedule: "@every 10s", Payload: "p", Lease: time.Minute, Overlap: "allow", Misfire: "all"}
	t.put("a", job, 0, 10)
	t.attempt("a", 10, 8.1, 1)
	t.said(Success, 12)
	t.ran("a", 20, 8.2)
	serial := job
	serial.Overlap, serial.KeepRuns = "", 1000
	t.op(Op{Kind: Put, Job: "a", Spec: &serial,
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(30), Changed: true}}, 9, 9.1)
	for s := 30.0; s < 60; s += 10 {
		t.ran("a", s, s+0.1)
	}
	t.is("a").Generation = 2
	t.Faults = []Fault{{Kind: "clock", From: sec(8), To: sec(19), Skew: 12 * time.Second}}
	return t
}

// rescheduled is a one-shot that asked to be called again, and then failed once.
func rescheduled() *tale {
	one := 1
	t := newTale()
	t.put("a", Job{Payload: "p", Policy: Policy{Kind: "constant", Interval: time.Second, MaxRetries: &one}}, 0,
		5)
	t.attempt("a", 5, 5.1, 1)
	t.said(Reschedule, 5.5).To = sec(7)
	t.attempt("a", 5, 7.1, 2)
	t.said(Failure, 7.5)
	t.attempt("a", 5, 8.6, 3)
	t.said(Success, 8.9)
	return t
}

// handedOver is a run that was on its way to a worker when its job was paused and the node went down.
func handedOver() *tale {
	t := paused()
	t.Ops[1].Invoke, t.Ops[1].Return = sec(10.5), sec(10.6)
	t.Faults = []Fault{{Kind: "kill", From: sec(10.65), To: sec(13)}}
	t.moved(0, 13.1)
	return t
}

// counted is a run whose count was lost in a crash.
func counted() *tale {
	t := lost()
	t.Faults = []Fault{{Kind: "kill", Targets: []string{"w"}, From: sec(5.2), To: sec(6)}}
	t.Attempts[1].Number, t.Results[0].Number = 1, 1
	return t
}

// answeredLate is a batch whose acknowledgements were lost for a while, answered when its first run had
// begun.
func answeredLate() *tale {
	t := newTale()
	answer := Answer{Generation: 1, UID: "ua", NextRun: sec(10), Created: true, Changed: true}
	t.op(Op{Kind: BatchPut, Job: "a", Batch: "1",
		Spec: &Job{Schedule: "*/10 * * * * *", Payload: "p", KeepRuns: 1000}, Answer: answer}, 1, 12)
	t.Faults = []Fault{{Kind: "lost acknowledgements", From: sec(0.5), To: sec(11)}}
	t.ranEach("a", 10, 10)
	t.is("a")
	return t
}

// turned is a job with a rule for runs that overlap, and from 35 s on with another.
func turned(from, to string) func() *tale {
	return func() *tale {
		t := held("a", Job{Lease: time.Minute, Overlap: from}, 50, 10, 3)
		spec := *t.Ops[0].Spec
		spec.Overlap = to
		t.op(Op{Kind: Put, Job: "a", Spec: &spec,
			Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(40), Changed: true}}, 35, 35.01)
		t.Final.Jobs[0].Generation = 2
		return t
	}
}

// queued are two jobs with one concurrency key, the second of which has to wait for the first.
func queued() *tale {
	t := tokens()
	t.Attempts[1].At, t.Results[1].Sent, t.Results[1].Told = sec(11.7), sec(12), sec(12.01)
	return t
}

// unkeyed are tokens, whose first job has been put again since without a key.
func unkeyed() *tale {
	t := tokens()
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Payload: "q", KeepRuns: 1000},
		Answer: Answer{Generation: 1, UID: "u2", NextRun: sec(30), Created: true, Changed: true}},
		30, 30.01)
	t.attempt("a", 30, 30.1, 1).Payload = "q"
	t.said(Success, 30.2)
	return t
}

// wholly is a backfill whose runs are all in the history.
func wholly() *tale {
	t := filled()
	t.Ops[1].Answer.Runs = 3
	for i := range t.Attempts {
		a := &t.Attempts[i]
		t.Final.Runs = append(t.Final.Runs,
			FinalRun{RunID: a.RunID, Namespace: "n", Job: "a", Status: "succeeded", Cause: CauseBackfill,
				Scheduled: a.Scheduled, Attempt: 1, Finished: t.Results[i].Sent, Backfill: "f"})
	}
	return t
}

// stood is a job under skip whose first run waited for a consumer until it was skipped by hand.
func stood() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Overlap: "skip"}, 0, 10)
	t.op(Op{Kind: Skip, Job: "a", Answer: Answer{NextRun: sec(10)}}, 31.9, 32)
	t.ended("a", "skipped", 10, 31.95).Reason = "skipped"
	t.skipped("a", "overlap", 20, 30, 2, 31.95)
	t.ran("a", 40, 40.1)
	t.ran("a", 50, 50.1)
	t.is("a")
	return t
}

// once is b, a one-shot after a.
func once() *tale {
	t := steady("a")
	t.put("b", Job{Payload: "p", After: []string{"a"}}, 0, 5)
	t.ran("b", 5, 10.3)
	return t
}

// overtaken is a recurring job with a patch that had to wait for the node, and a put that came later and was
// applied before it: what failed is retried as that put says.
func overtaken() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "o",
		Policy: Policy{Kind: "constant", Interval: 3 * time.Second}}, 0, 10)
	spec := *t.Ops[0].Spec
	spec.Policy.Interval = time.Second
	t.op(Op{Kind: Patch, Job: "a", Fields: []string{"payload"}, Spec: &Job{Payload: "p"},
		Answer: Answer{Generation: 3, UID: "ua", NextRun: sec(10), Changed: true}}, 1, 4)
	t.op(Op{Kind: Put, Job: "a", Spec: &spec,
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(10), Changed: true}}, 2, 3)
	t.Faults = []Fault{{Kind: "kill", From: sec(0.5), To: sec(2)}}
	for s := 10.0; s < 60; s += 10 {
		t.attempt("a", s, s+0.1, 1)
		t.said(Failure, s+0.2)
		t.attempt("a", s, s+1.3, 2)
		t.said(Success, s+1.4)
	}
	t.is("a").Generation = 3
	return t
}

// patchedLast is a one-shot with a patch of its content that had to wait for the node, and a put that came
// later and was applied before it: it runs at the time of that put.
func patchedLast() *tale {
	t := newTale()
	t.put("a", Job{Payload: "o", Due: sec(50)}, 0, 50)
	t.op(Op{Kind: Patch, Job: "a", Fields: []string{"payload"}, Spec: &Job{Payload: "p"},
		Answer: Answer{Generation: 3, UID: "ua", NextRun: sec(12.5), Changed: true}}, 1, 4)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Payload: "q", Relative: true,
		DueIn: 10 * time.Second, KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(12.5), Changed: true}}, 2, 3)
	t.Faults = []Fault{{Kind: "kill", From: sec(0.5), To: sec(2)}}
	t.ran("a", 12.5, 12.6)
	return t
}

// timedOut is a job one of whose runs died of its timeout, was answered too late, and was redriven much
// later.
func timedOut() *tale {
	t := held("a", Job{Lease: time.Minute, Timeout: 8 * time.Second, Policy: Policy{Kind: "drop"}}, 50, 10, 3)
	r := &t.Results[0]
	r.Sent, r.Told, r.Verdict = sec(20.5), sec(20.6), Stale
	t.op(Op{Kind: Redrive, Job: "a", RunID: "a@10"}, 35, 35.1)
	t.attempt("a", 10, 35.2, 1).Token = "again"
	t.said(Success, 35.4)
	return t
}

// behind is a job that was put, and a time of it skipped by hand, by a clock that was 19 s behind.
func behind() *tale {
	t := newTale()
	t.Faults = []Fault{{Kind: "clock", From: sec(19), To: sec(22), Skew: -19 * time.Second}}
	t.put("a", Job{Schedule: "@every 10s", Repeats: 2, Payload: "p"}, 20, 11)
	t.op(Op{Kind: Skip, Job: "a", Answer: Answer{NextRun: sec(11)}}, 21, 21.1)
	t.skipped("a", "skipped", 11, 11, 1, 2.05)
	t.ran("a", 21, 22.1)
	return t
}

// busyBehind is a serial job one of whose runs took until after the next time; that it ended was stamped by a
// clock that was 5 s behind.
func busyBehind() *tale {
	t := steady("a")
	t.Ops[0].Spec.Lease = time.Minute
	t.Faults = []Fault{{Kind: "clock", From: sec(34), To: sec(36), Skew: -5 * time.Second}}
	t.Results[1].Sent, t.Results[1].Told = sec(35), sec(35.1)
	t.ended("a", "succeeded", 20, 30.05)
	t.moved(2, 35.2)
	return t
}

// swung is a run whose lease was over sooner than it seemed: the clock was behind when it began, and ahead
// when it ended.
func swung() *tale {
	t := lost()
	t.Faults = []Fault{{Kind: "clock", From: sec(5), To: sec(5.5), Skew: -500 * time.Millisecond},
		{Kind: "clock", From: sec(7), To: sec(9), Skew: 500 * time.Millisecond}}
	t.Attempts[1].At = sec(8.2)
	return t
}

// replayed is a run whose request came twice, as the node was killed that had sent the first, and whose time
// was over soon after.
func replayed() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p", Timeout: 3 * time.Second}, 0, 5)
	t.attempt("a", 5, 5.1, 1)
	t.said(LostWorker, 5.2)
	t.Faults = []Fault{{Kind: "kill", From: sec(5.2), To: sec(5.3)}}
	t.attempt("a", 5, 6.7, 1)
	t.attempt("a", 5, 8.2, 2)
	t.said(Success, 8.5)
	return t
}

// cameBack is a job that was deleted with another payload than that with which a run of it had died: the
// redrive of that run brought it back as it then was, and a patch made it recur again.
func cameBack() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
	t.attempt("a", 10, 10.1, 1)
	t.said(Permanent, 10.5)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "q", KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(20), Changed: true}}, 12, 12.1)
	t.op(Op{Kind: Delete, Job: "a"}, 15, 15.1)
	t.op(Op{Kind: Redrive, Job: "a", RunID: "a@10"}, 21, 21.1)
	t.attempt("a", 10, 21.2, 1).Token = "again"
	t.op(Op{Kind: Patch, Job: "a", Fields: []string{"schedule"}, Spec: &Job{Schedule: "@every 10s"},
		Answer: Answer{Generation: 3, UID: "ua", NextRun: sec(32), Changed: true}}, 22, 22.1)
	t.attempt("a", 10, 22.2, 2)
	t.said(Success, 22.3)
	t.ranEach("a", 32, 10)
	t.is("a").Generation = 3
	return t
}

// heldUp is a one-shot whose first attempt was on its way for longer than its lease, and came when the second
// had succeeded.
func heldUp() *tale {
	t := lost()
	t.Faults = []Fault{{Kind: "freeze", From: sec(5), To: sec(9.7), Holds: true}}
	t.Attempts[0].At = sec(9.8)
	return t
}

// heldUpLate is one that was handed out just before the fault.
func heldUpLate() *tale {
	t := heldUp()
	t.Attempts[0].Started, t.Attempts[0].Lease = sec(5), time.Second
	return t
}

// heldUpOutside is one that was handed out in the course of it.
func heldUpOutside() *tale {
	t := heldUpLate()
	t.Attempts[0].Started, t.Faults[0].Outside = sec(6), true
	return t
}

// heldUpUntil is a one-shot whose only attempt was on its way while something was asked that ends it.
func heldUpUntil(o Op, status string) func() *tale {
	return func() *tale {
		t := newTale()
		t.put("a", Job{Payload: "p"}, 0, 5)
		t.attempt("a", 5, 9.8, 1)
		t.Faults = []Fault{{Kind: "freeze", From: sec(5), To: sec(9.7), Holds: true}}
		t.op(o, 8, 8.1)
		t.ended("a", status, 5, 8.05)
		return t
	}
}

var (
	heldUpCancelled = heldUpUntil(Op{Kind: Cancel, Job: "a", RunID: "a@5"}, "cancelled")
	heldUpDeleted   = heldUpUntil(Op{Kind: Delete, Job: "a"}, "cancelled")
)

// heldUpForGood is one whose second attempt has failed for good when the first one comes.
func heldUpForGood() *tale {
	t := heldUp()
	t.Results[0].Kind = Permanent
	t.ended("a", "failed", 5, 9.52)
	return t
}

// heldUpOverAnEdit is a job whose run was made again since the job was changed, and came to its worker when
// that was long ago. Before the change the policy allowed more attempts than after it.
func heldUpOverAnEdit() *tale {
	t := newTale()
	before := Job{Schedule: "@every 30s", Payload: "p",
		Policy: Policy{Kind: "constant", Interval: time.Second, MaxRetries: new(2)}}
	t.put("a", before, 0, 30)
	after := Job{Schedule: "@every 30s", Payload: "q", Policy: Policy{Kind: "drop"}, KeepRuns: 1000}
	t.op(Op{Kind: Put, Job: "a", Spec: &after,
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(60.3), Changed: true}}, 30.3, 30.4)
	t.attempt("a", 30, 36.1, 1).Started = sec(30)
	next := t.attempt("a", 30, 36.15, 2)
	next.Started, next.Payload = sec(30.4), "q"
	t.said(Success, 36.3)
	t.Faults = []Fault{{Kind: "cut off from clients", From: sec(29.9), To: sec(36), Holds: true, Outside: true}}
	f := t.is("a")
	f.Generation, f.Payload = 2, "q"
	return t
}

// slowWay is such a job whose workers are slow: nothing holds the first attempt up, and yet it comes to one
// of them after the second has come to another.
func slowWay() *tale {
	t := heldUpOverAnEdit()
	t.Faults, t.Constants.Apply = nil, 100*time.Millisecond
	t.Attempts[0].At, t.Attempts[1].At = sec(30.5), sec(30.45)
	t.Results[0].Sent, t.Results[0].Told = sec(30.48), sec(30.49)
	return t
}

// excused are histories in which something has an excuse, and the smallest change of each that has none.
var excused = []corruption{
	{"early by a clock that ran ahead", "S1", skewed(2*time.Second, 18.5),
		func(t *tale) { t.Faults[0].Skew = time.Second }},
	{"early when the clock was right again", "S1", skewed(2*time.Second, 18.5),
		func(t *tale) { t.Faults[0].From, t.Faults[0].To = sec(16), sec(17.9) }},
	{"early by a clock that ran behind", "S1", skewed(2*time.Second, 18.5),
		func(t *tale) { t.Faults[0].Skew = -2 * time.Second }},
	{"late by a clock that ran behind", "L1", skewed(-2*time.Second, 22), func(t *tale) { t.moved(1, 26.5) }},
	{"a request that came twice, and the time was not over", "S10", replayed,
		func(t *tale) { t.Attempts[2].At = sec(8) }},
	{"a request that came twice by itself", "S10", replayed, func(t *tale) { t.Faults = nil }},
	{"another run came in between", "S10", replayed, func(t *tale) { t.Attempts[1].Token = "another" }},
	{"a clock is no cause of a second attempt", "S10", func() *tale {
		t := lost()
		t.Faults = []Fault{{Kind: "clock", From: sec(6), To: sec(8), Skew: time.Second}}
		t.Attempts[1].At = sec(8.2)
		return t
	}, func(t *tale) { t.Attempts[1].At = sec(8) }},
	{"another's endpoint was down", "L1", refused, func(t *tale) { t.Ops[0].Spec.Queue = "http://other/run" }},
	{"an endpoint was down long ago", "L1", refused,
		func(t *tale) { t.Faults[0].From, t.Faults[0].To = sec(10), sec(17) }},
	{"the phase of another schedule", "S2", unheard, func(t *tale) { t.Ops[1].Spec.Zone = "Europe/Berlin" }},
	{"paused, but not then", "S12", paused, func(t *tale) {
		t.drop("a@50")
		r := &t.Final.Runs[0]
		r.Scheduled, r.Skipped, r.Finished = sec(50), 4, sec(50.2)
	}},
	{"missed in a pause without being asked", "S12", caughtUp("skip"),
		func(t *tale) { t.Ops[2].CatchUp = false }},
	{"caught up without being asked", "S2", caughtUp("all"), func(t *tale) { t.Ops[2].CatchUp = false }},
	{"another time than the one to be skipped", "S12", passed,
		func(t *tale) { t.Ops[1].Answer.NextRun = sec(40) }},
	{"skipped by a clock that was not so far behind", "S12", behind,
		func(t *tale) { t.Faults[0].Skew = -5 * time.Second }},
	{"more times skipped by a clock that was behind", "S12", behind,
		func(t *tale) { t.Final.Runs[0].Skipped = 2 }},
	{"retried sooner than the put before the patch says", "I11", overtaken, func(t *tale) { t.moved(1, 11.1) }},
	{"the put before the patch was refused", "I11", overtaken, func(t *tale) { t.Ops[2].Outcome = Fail }},
	{"at the time of a put that was refused", "S2", patchedLast, func(t *tale) { t.Ops[2].Outcome = Fail }},
	{"at the time of a put that a patch replaced", "S2", patchedLast, func(t *tale) {
		o := &t.Ops[1]
		o.Fields, o.Spec.Due, o.Answer.NextRun = append(o.Fields, "due"), sec(40), sec(40)
	}},
	{"busy by a clock that was not so far behind", "L1", busyBehind,
		func(t *tale) { t.Faults[0].Skew = -time.Second }},
	{"a clock that was behind all the time", "S10", swung,
		func(t *tale) { t.Faults[1].Skew = -500 * time.Millisecond }},
	{"patched before it came back", "S2", cameBack,
		func(t *tale) { t.Ops[3].Invoke, t.Ops[3].Return = sec(25), sec(25.1) }},
	{"came back with a payload of nobody", "S2", cameBack, func(t *tale) { t.Attempts[4].Payload = "z" }},
	{"in force until its timeout", "S9", timedOut, func(t *tale) { t.Ops[0].Spec.Timeout = 11 * time.Second }},
	{"its timeout became shorter later", "S9", timedOut, func(t *tale) {
		spec := *t.Ops[0].Spec
		t.Ops[0].Spec.Timeout = 11 * time.Second
		t.op(Op{Kind: Put, Job: "a", Spec: &spec,
			Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(60), Changed: true}}, 53, 53.1)
	}},
	{"another run was redriven", "I11", revivedRun, func(t *tale) { t.Ops[1].RunID = "a@6" }},
	{"redriven without its payload", "S2", revivedRun, func(t *tale) { t.Attempts[1].Payload = "" }},
	{"redriven with a payload of nobody", "S2", revivedRun, func(t *tale) { t.Attempts[1].Payload = "z" }},
	{"a read of what was replaced, beside a redrive", "S8", func() *tale {
		t := edited()
		t.op(Op{Kind: Redrive, Job: "a"}, 14, 14.1)
		return t
	}, func(t *tale) { t.Ops[3].Answer.Payload = "p" }},
	{"a job came back, and nobody had redriven it", "S8", func() *tale {
		t := revivedRun()
		t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 5, Payload: "p"}}, 10.2, 10.3)
		return t
	}, func(t *tale) { t.Ops[1].Kind, t.Ops[1].RunID = Trigger, "" }},
	{"its life went on by any clock", "S3", outlived,
		func(t *tale) { t.Faults[0].Skew = -500 * time.Millisecond }},
	{"an older one ran, and the spread had passed", "S12", spaced, func(t *tale) {
		t.Results[0].Sent, t.Results[0].Told = sec(35.5), sec(35.6)
		t.moved(1, 35.7)
		t.moved(2, 36)
	}},
	{"an older one ran, before there was a spread", "S12", spaced, func(t *tale) {
		t.Ops[1].Invoke, t.Ops[1].Return, t.Ops[1].Answer.NextRun = sec(33), sec(33.1), sec(40)
	}},
	{"triggered, and tried once too often as it was", "I11", triggeredBack,
		func(t *tale) { t.Attempts[4].Number = 5 }},
	{"triggered, and nothing had brought back what it was", "I11", triggeredBack,
		func(t *tale) { t.Ops[2].Outcome = Fail }},
	{"triggered, and redriven later", "I11", triggeredBack, func(t *tale) {
		t.Ops[2].Invoke, t.Ops[2].Return = sec(14), sec(14.1)
		t.moved(2, 14.2)
	}},
	{"replaced when the clock was ahead", "S9", besideEarly,
		func(t *tale) { t.Ops[0].Spec.Overlap = "replace" }},
	{"listed before it was redriven", "S8", broughtBack,
		func(t *tale) { t.Ops[4].Invoke, t.Ops[4].Return = sec(18), sec(18.1) }},
	{"listed when what was redriven had ended", "S8", broughtBack,
		func(t *tale) { t.Ops[4].Invoke, t.Ops[4].Return = sec(24.2), sec(24.3) }},
	{"listed as it was before the run that died", "S8", broughtBack,
		func(t *tale) { t.Ops[4].Answer.Listed[0].Payload = "old" }},
	{"listed, and another run was redriven", "S8", broughtBack, func(t *tale) { t.Ops[3].RunID = "a@20" }},
	{"listed, and the redrive was refused", "S8", broughtBack, func(t *tale) { t.Ops[3].Outcome = Fail }},
	{"listed, and deleted again", "S8", broughtBack,
		func(t *tale) { t.op(Op{Kind: Delete, Job: "a"}, 20.3, 20.4) }},
	{"listed as it was, and put again since", "S8", broughtBack, func(t *tale) {
		t.put("a", Job{Schedule: "@every 100s", Payload: "q"}, 20.3, 120).Answer.UID = "ub"
	}},
	{"listed as it was, and there before the redrive", "S8", broughtBack, func(t *tale) {
		t.put("a", Job{Schedule: "@every 100s", Payload: "q"}, 19, 119).Answer.UID = "ub"
	}},
	{"there at the end, and not redriven", "S3", thereAgain, func(t *tale) { t.Ops[3].Outcome = Fail }},
	{"there at the end with another payload", "S3", thereAgain,
		func(t *tale) { t.Final.Jobs[0].Payload = "old" }},
	{"there at the end, and deleted again", "S3", thereAgain,
		func(t *tale) { t.op(Op{Kind: Delete, Job: "a"}, 58.3, 58.4) }},
	{"redriven before the delete", "S2", func() *tale {
		t := revivedRun()
		t.op(Op{Kind: Delete, Job: "a"}, 7, 7.1)
		return t
	}, func(t *tale) { t.Ops[1].Invoke, t.Ops[1].Return = sec(6), sec(6.1) }},
	{"cancelled after it was redriven", "S3", func() *tale {
		t := revivedRun()
		t.op(Op{Kind: Cancel, Job: "a", RunID: "a@5"}, 6, 6.1)
		return t
	}, func(t *tale) {
		t.Ops[1].Invoke, t.Ops[1].Return, t.Ops[2].Invoke, t.Ops[2].Return = sec(5.6), sec(5.7), sec(8), sec(8.1)
	}},
	{"redriven, and recorded without a cause", "S3", func() *tale {
		t := revivedRun()
		t.drop("a@5")
		t.Faults = []Fault{{Kind: "kill", From: sec(10.2), To: sec(11)}}
		t.ended("a", "failed", 5, 12)
		t.put("b", Job{Payload: "p"}, 0, 1)
		t.ran("b", 1, 1.1)
		return t
	}, func(t *tale) { t.Faults = nil }},
	{"a reschedule does not count again from one", "S2", rescheduled,
		func(t *tale) { t.Attempts[1].Number = 1 }},
	{"a failure is no reschedule", "I11", rescheduled, func(t *tale) { t.Results[0].Kind = Failure }},
	{"handed out long after the pause", "S2", handedOver, func(t *tale) { t.Faults[0].From = sec(12.5) }},
	{"beside the others, and paused", "S2", func() *tale {
		t := paused()
		t.Ops[0].Spec.Overlap = "allow"
		return t
	}, func(t *tale) { t.attempt("a", 30, 30.1, 1) }},
	{"beside the others, and begun after the pause", "S2", func() *tale {
		t := paused()
		t.Ops[0].Spec.Overlap = "allow"
		t.Ops[1].Invoke, t.Ops[1].Return = sec(10.5), sec(10.6)
		return t
	}, func(t *tale) { t.moved(0, 12) }},
	{"skipped after a worker had it", "S11", func() *tale {
		t := owners()
		t.Writes = append(t.Writes, Write{Partition: 1, Epoch: 2, Node: "y", RunID: "a@35",
			To: "granted", Attempt: 1},
			Write{Partition: 1, Epoch: 2, Node: "y", RunID: "a@35", From: "granted", To: "skipped", Reason: "skipped"})
		return t
	}, func(t *tale) { t.Writes[4].RunID, t.Writes[5].RunID = "a@30", "a@30" }},
	{"a payload from long before a fault", "S2", func() *tale {
		t := edited()
		t.Faults = []Fault{{Kind: "kill", From: sec(31.5), To: sec(31.9)}}
		return t
	}, func(t *tale) { t.Attempts[1].Payload = "p" }},
	{"a worker does not lose the count", "S2", counted, func(t *tale) { t.Faults[0].Kind = "worker crash" }},
	{"overlap before it was allowed", "S9", turned("serial", "allow"),
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(20.5), sec(20.6) }},
	{"a replaced run succeeds before the rule has changed", "S9", turned("replace", "serial"), func(t *tale) {
		t.Results[0].Sent, t.Results[0].Told = sec(22), sec(22.1)
	}},
	{"over the limit before the key was gone", "S9", unkeyed, func(t *tale) { t.Attempts[1].At = sec(11) }},
	{"a permit was free", "L1", queued, func(t *tale) {
		t.Attempts[1].At, t.Results[1].Sent, t.Results[1].Told = sec(16.2), sec(16.3), sec(16.4)
	}},
	{"counted backwards, and nothing held it up", "S2", heldUp, func(t *tale) { t.Faults[0].Holds = false }},
	{"sent after the next one had come", "S2", heldUp, func(t *tale) { t.Faults[0].From = sec(9.3) }},
	{"sent after it was done", "S4", heldUp, func(t *tale) { t.Faults[0].From = sec(9.6) }},
	{"sent after it had failed for good", "I11", heldUpForGood, func(t *tale) { t.Faults[0].From = sec(9.6) }},
	{"sent after it was cancelled", "S3", heldUpCancelled, func(t *tale) { t.Faults[0].From = sec(9.2) }},
	{"sent after its job was deleted", "S2", heldUpDeleted, func(t *tale) { t.Faults[0].From = sec(9.2) }},
	{"made again, and the change was long ago", "I11", heldUpOverAnEdit,
		func(t *tale) { t.Attempts[0].Started = sec(35) }},
	{"handed out after the one that replaced it", "S2", slowWay,
		func(t *tale) { t.Attempts[0].Started = sec(30.49) }},
	{"a way that takes no time", "S2", slowWay, func(t *tale) { t.Constants.Apply = 0 }},
	{"handed out after it was done", "S4", heldUp,
		func(t *tale) { t.Attempts[0].Started, t.Attempts[0].Lease = sec(9.7), time.Second }},
	{"handed out while the node was halted", "S9", heldUpLate, func(t *tale) { t.Attempts[0].Started = sec(6) }},
	{"handed out long before it was halted", "S9", heldUpLate, func(t *tale) { t.Attempts[0].Started = sec(3) }},
	{"held up where a node might have dropped it", "S9", heldUpOutside,
		func(t *tale) { t.Faults[0].Outside = false }},
	{"held up long before", "S4", heldUp, func(t *tale) { t.Attempts[0].At = sec(15) }},
	{"a release is lost", "S3", chain, func(t *tale) { t.drop("b@30") }},
	{"the only release is lost", "S3", once, func(t *tale) { t.drop("b@5") }},
	{"a batch is told what its job has become", "S2", answeredLate,
		func(t *tale) { t.Ops[0].Answer.NextRun = sec(20) }},
	{"two runs on one success", "S12", chain, func(t *tale) { t.moved(7, 30.15) }},
	{"a backfill has one time more", "S3", wholly, func(t *tale) { t.Ops[1].Answer.Runs = 4 }},
	{"nothing stood there any more", "S12", stood, func(t *tale) {
		t.Ops[1].Invoke, t.Ops[1].Return, t.Final.Runs[0].Finished = sec(14.9), sec(15), sec(14.95)
	}},
	{"the newest was passed over by overlap", "S12", func() *tale {
		t := steady("a")
		t.Ops[0].Spec.Overlap = "replace"
		t.drop("a@20")
		t.skipped("a", "overlap", 20, 20, 1, 30.01)
		t.Faults = []Fault{{Kind: "kill", From: sec(19), To: sec(30)}}
		return t
	}, func(t *tale) { t.Final.Runs[0].Finished = sec(29) }},
	{"an old time, and a newer within its life", "S12", func() *tale {
		t := long()
		t.Ops[0].Spec.TTL = 25 * time.Second
		t.drop("a@30")
		t.drop("a@40")
		t.drop("a@50")
		t.Final.Runs, t.Final.Jobs = nil, nil
		t.ran("a", 20, 31.05)
		return t
	}, func(t *tale) { t.Ops[0].Spec.TTL = 31 * time.Second }},
}

// TestAResultOfTheFirstCopyEndsTheSecond: an attempt that was in doubt was handed out again, and then came the
// result of the first time, which had been held up. It may have ended the attempt as soon as that came again.
func TestAResultOfTheFirstCopyEndsTheSecond(t *testing.T) {
	for told, want := range map[float64]float64{30.2: 30, 29: 90} {
		h := newTale()
		h.put("a", Job{Schedule: "@every 40s", Lease: time.Minute, Payload: "p"}, 0, 10)
		h.attempt("a", 10, 10.1, 1)
		h.said(Permanent, 10.5).Told = sec(told)
		h.attempt("a", 10, 30, 1)
		c := newCheck(&h.History, Spec{})
		r := c.jobs[key{"n", "a"}].runs[0]
		if got := c.certain(r, 1); !got.to.Equal(sec(want)) {
			t.Errorf("told at %v: in force until %v, want %v", told, got.to, sec(want))
		}
	}
}
