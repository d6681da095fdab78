package checker

import (
	"fmt"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sec is a moment so many seconds into a history.
func sec(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// tale is a history that is written as a test needs it.
type tale struct{ History }

// newTale is a minute of which the last 20 seconds are calm.
func newTale() *tale {
	return &tale{History{
		Profile: "test", Start: start, Healed: sec(40), End: sec(60),
		Constants: Constants{Dispatch: time.Second, Recovery: 5 * time.Second, OwnerLease: 5 * time.Second,
			Lease: 4 * time.Second},
		Final: Final{Whole: true},
	}}
}

func (t *tale) op(o Op, from, to float64) *Op {
	o.Namespace, o.Client, o.Invoke, o.Return = "n", "c", sec(from), sec(to)
	if o.Outcome == "" {
		o.Outcome = OK
	}
	t.Ops = append(t.Ops, o)
	return &t.Ops[len(t.Ops)-1]
}

// put is an acknowledged put that creates a job.
func (t *tale) put(name string, j Job, from, next float64) *Op {
	j.KeepRuns = 1000
	return t.op(Op{Kind: Put, Job: name, Spec: &j,
		Answer: Answer{Generation: 1, UID: "u" + name, NextRun: sec(next), Created: true, Changed: true}}, from,
		from+0.01)
}

// attempt is one attempt without a result.
func (t *tale) attempt(job string, scheduled, at float64, number int) *Attempt {
	id := fmt.Sprintf("%s@%v", job, scheduled)
	t.Attempts = append(t.Attempts, Attempt{RunID: id, Namespace: "n", Job: job, Cause: CauseSchedule,
		Scheduled: sec(scheduled), Number: number,
		Token: fmt.Sprintf("%s#%d", id, number), Payload: "p", Worker: "w", At: sec(at)})
	return &t.Attempts[len(t.Attempts)-1]
}

// said is a result of the attempt that was written down last.
func (t *tale) said(kind ResultKind, at float64) *Result {
	a := t.Attempts[len(t.Attempts)-1]
	r := Result{RunID: a.RunID, Token: a.Token, Number: a.Number, Kind: kind, Sent: sec(at),
		Told: sec(at + 0.01), Verdict: Acked}
	if kind == LostWorker || kind == Fabricated {
		r.Told, r.Verdict = time.Time{}, None
	}
	t.Results = append(t.Results, r)
	return &t.Results[len(t.Results)-1]
}

// ran is a run that succeeded at once.
func (t *tale) ran(job string, scheduled, at float64) {
	t.attempt(job, scheduled, at, 1)
	t.said(Success, at+0.1)
}

// ranEach is runs so many seconds apart, from one on to the end, that succeeded at once.
func (t *tale) ranEach(job string, from, step float64) {
	for s := from; s < 60; s += step {
		t.ran(job, s, s+0.1)
	}
}

// ended is a record in the history, with the attempts so far.
func (t *tale) ended(job, status string, scheduled, finished float64) *FinalRun {
	id, attempts := fmt.Sprintf("%s@%v", job, scheduled), 0
	for i := range t.Attempts {
		if a := &t.Attempts[i]; a.RunID == id {
			attempts = max(attempts, a.Number)
		}
	}
	t.Final.Runs = append(t.Final.Runs, FinalRun{RunID: id, Attempt: attempts, Namespace: "n",
		Job: job, Status: status, Cause: CauseSchedule, Scheduled: sec(scheduled), Finished: sec(finished)})
	return &t.Final.Runs[len(t.Final.Runs)-1]
}

// skipped is a record of times that did not run.
func (t *tale) skipped(job, reason string, from, to float64, n uint64, finished float64) *FinalRun {
	r := t.ended(job, "skipped", to, finished)
	r.RunID, r.Reason, r.From, r.Skipped = "skipped-"+r.RunID, reason, sec(from), n
	return r
}

// is says that a job is there at the end.
func (t *tale) is(job string) *FinalJob {
	t.Final.Jobs = append(t.Final.Jobs, FinalJob{Namespace: "n", Job: job, UID: "u" + job,
		Generation: 1, Payload: "p"})
	return &t.Final.Jobs[len(t.Final.Jobs)-1]
}

// steady is a job that runs each ten seconds and always did.
func steady(job string) *tale {
	t := newTale()
	t.put(job, Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
	t.ranEach(job, 10, 10)
	t.is(job)
	return t
}

// held is one run each ten seconds, each in force for so long.
func held(job string, j Job, last, step, takes float64) *tale {
	t := newTale()
	j.Schedule, j.Payload = fmt.Sprintf("@every %vs", step), "p"
	t.put(job, j, 0, step)
	for s := step; s <= last; s += step {
		t.attempt(job, s, s+0.1, 1)
		t.said(Success, s+takes)
	}
	t.is(job)
	return t
}
