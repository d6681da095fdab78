package checker

import (
	"iter"
	"slices"
	"time"
)

// runRules are about what each run was to its workers: S1, S2, S4, S5, S9, S13.
type runRules struct{ *check }

// early: S1, nothing begins before it is due. What the spread adds is known by its bound only.
func (c runRules) early(r *run) {
	for _, a := range r.attempts {
		if !c.showed(r.job, a.Scheduled, a.At) {
			c.addf("S1", r.job.String(), "run %s began %v before its scheduled time", r.id, a.Scheduled.Sub(a.At))
		} else if !a.Due.IsZero() && !c.showed(r.job, a.Due, a.At) {
			c.addf("S1", r.job.String(), "attempt %d of run %s began %v before it was due", a.Number,
				r.id, a.Due.Sub(a.At))
		}
	}
}

// phantom: S2, every attempt belongs to a definition of its job that may have been in force.
func (c runRules) phantom(r *run) {
	a, j := r.first(), r.job // of those that were seen
	for _, a := range r.attempts {
		if c.surelyGone(j, c.sent(a).Add(-c.k.Dispatch), a.At) {
			c.addf("S2", j.String(), "attempt %d of run %s began at %s, when the job did not exist", a.Number,
				r.id, c.show(a.At))
			return
		}
	}
	switch {
	case a.Cause == CauseSchedule && !c.mayBeScheduled(j, a):
		c.addf("S2", j.String(), "run %s at %s is no time of the job", r.id,
			a.Scheduled.UTC().Format(time.RFC3339Nano))
	case a.Cause == CauseSchedule && c.pausedAt(r, a):
		c.addf("S2", j.String(), "run %s began at %s, when the job was paused", r.id, c.show(a.At))
	case a.Cause == CauseSchedule && c.passedInPause(r):
		c.addf("S2", j.String(), "run %s is of %s, when the job was paused, and nobody asked to catch up",
			r.id, c.show(a.Scheduled))
	case a.Cause == CauseTrigger && !slices.ContainsFunc(j.ops, func(o *Op) bool {
		return o.Kind == Trigger && o.Outcome != Fail && (o.Answer.RunID == r.id || o.Outcome == Info) &&
			!o.Invoke.After(a.At) &&
			!c.lapses.undoneBy(o, a.At)
	}):
		c.addf("S2", j.String(), "run %s was triggered by nobody", r.id)
	}
	c.content(r)
}

// content: S2, every attempt carries what its job says.
func (c runRules) content(r *run) {
	j := r.job
	for _, a := range r.attempts {
		had := slices.ContainsFunc(j.effects, func(e *effect) bool {
			return e.job != nil && !e.lo.After(a.At) && e.job.Payload == a.Payload
		})
		if a.Payload == "" && r.first().Payload != "" || a.Payload != "" && !had && len(j.effects) > 0 {
			c.addf("S2", j.String(), "attempt %d of run %s carried a payload that its job never had", a.Number, r.id)
		}
		if redriven(r, a.At) || (a.Cause == CauseTrigger && revived(j, time.Time{}, a.At)) {
			return // it has the content that it, or what brought its job back, died with
		}
		if a.Payload != "" && !c.mayCarry(j, a) {
			c.addf("S2", j.String(), "attempt %d of run %s carried a payload that was not in force at %s",
				a.Number, r.id, c.show(a.At))
		}
	}
}

// pausedAt reports whether the first attempt of a run was handed out while the job was surely paused. An
// attempt may be on its way for a moment, longer when something was wrong; one that never arrived may have
// gone before it; and one in doubt is made again.
func (c runRules) pausedAt(r *run, a *Attempt) bool {
	if redriven(r, a.At) {
		return false
	}
	if c.surelyPaused(r.job, a.Scheduled.Add(-c.wrong(r.job, a.Scheduled, a.At)), a.At) {
		return true // its time came in the pause: it cannot have begun before
	}
	since := a.At.Add(-c.k.Dispatch)
	if t, found := c.trouble(r.job, since, a.At, a); found {
		since = earlier(since, t.Add(-c.k.Dispatch))
	}
	return a.Number <= 1 && c.surelyPaused(r.job, since, a.At) && !c.leftBefore(r, a)
}

// passedInPause reports whether the time of a run came while the job was surely paused, and the times of that
// pause were not to be made up for. A one-shot's waits for the end of the pause.
func (c runRules) passedInPause(r *run) bool {
	a, j := r.first(), r.job
	wrong := c.wrong(j, a.Scheduled, a.At)
	from := a.Scheduled.Add(-wrong)
	spread := time.Duration(0)
	for _, e := range j.effects {
		if e.job != nil {
			spread = max(spread, e.job.Jitter)
		}
	}
	return c.surelyPaused(j, from, a.Scheduled.Add(spread+wrong+c.k.Apply)) && !redriven(r, a.At) &&
		!c.hadRule(j, from, a.At, func(s *Job) bool { return s.Schedule == "" }) &&
		!c.asked(j, from, a.At, func(o *Op) bool { return o.defines() || (o.Kind == Resume && o.CatchUp) })
}

// revived reports whether a job may have come back for a dead run of it in a stretch of time.
func revived(j *job, from, by time.Time) bool {
	return slices.ContainsFunc(j.ops, func(o *Op) bool {
		return o.Kind == Redrive && o.Outcome != Fail && !o.Invoke.After(by) &&
			(o.Outcome == Info || !o.Return.Before(from))
	})
}

// redriven reports whether a run may have been given a fresh set of attempts by then.
func redriven(r *run, by time.Time) bool {
	return slices.ContainsFunc(r.job.ops, func(o *Op) bool {
		return o.Kind == Redrive && o.Outcome != Fail && !o.Invoke.After(by) && (o.RunID == "" || o.RunID == r.id)
	})
}

// mayBeScheduled reports whether a time is one that some definition of the job may have given by then.
func (c runRules) mayBeScheduled(j *job, a *Attempt) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		if e.job == nil || e.lo.After(a.At) ||
			a.Scheduled.After(e.timed.Add(c.wrong(j, e.timed, e.timed)+c.k.Apply)) {
			return false
		}
		if e.job.Schedule == "" && !e.vague && !e.op.retimes() {
			return false // its time is that of a definition before it
		}
		return e.alien || e.vague || c.gives(e, a.Scheduled) || c.keepsPhase(j, e, a.Scheduled)
	})
}

// keepsPhase reports whether t is a time of an earlier definition of the job with the same schedule: a put or
// a patch that leaves the schedule alone leaves its phase alone, and what it answers need not tell, if the
// job is paused or no answer came.
func (c runRules) keepsPhase(j *job, e *effect, t time.Time) bool {
	if e.op.Outcome == OK && e.op.Answer.Created {
		return false // there was nothing before it
	}
	return slices.ContainsFunc(j.effects, func(x *effect) bool {
		return x != e && x.job != nil && sameTimes(x.job, e.job) && !x.after(e) && c.gives(x, t) &&
			!slices.ContainsFunc(j.effects, func(d *effect) bool {
				ends := d.op.deletes() || (d.job != nil && !d.vague && !sameTimes(x.job, d.job))
				return ends && d.sure && d.after(x) && e.after(d)
			})
	})
}

// gives reports whether t is a time of the definition.
func (w *world) gives(e *effect, t time.Time) bool {
	first := e.op.Answer.NextRun
	if w.readBack(e) {
		first = time.Time{}
	}
	wrong := w.wrong(nil, e.lo, e.hi) // any node may have taken the call, and stamped it
	low, high := e.lo.Add(-wrong), e.hi.Add(wrong)
	switch {
	case !e.job.Due.IsZero():
		low, high = e.job.Due, e.job.Due
	case e.job.Relative:
		low, high = low.Add(e.job.DueIn), high.Add(e.job.DueIn)
	}
	if e.job.Schedule == "" {
		return t.Equal(first) || (first.IsZero() && !t.Before(low) && !t.After(high))
	}
	if e.beginsAtDue(t) && !t.Before(low) && !t.After(high) {
		return true
	}
	if e.op.Outcome == OK && !first.IsZero() {
		if t.Before(first) {
			return false
		}
		if e.sched.anchored && (e.sched.step.months == 0 || first.Equal(e.job.Due)) {
			return e.sched.is(t, first, first)
		}
	}
	return e.sched.is(t, low, high)
}

// readBack reports whether the answer to a batch may tell what its jobs had become: in a cluster, where the
// answer of the node that stored one may be lost, they are read then.
func (w *world) readBack(e *effect) bool { return w.readAfter(e.op, e.lo, e.hi) }

// readAfter is readBack of an operation that was done between two instants.
func (w *world) readAfter(o *Op, from, to time.Time) bool {
	return o.Kind == BatchPut && len(w.h.Homes) > 0 && w.fault(nil, from, to, nil)
}

// mayCarry reports whether a definition with the attempt's payload may have been in force when it was handed
// out.
func (c runRules) mayCarry(j *job, a *Attempt) bool {
	since := a.At // when what came now may have been handed out
	if t, found := c.trouble(j, a.At.Add(-c.k.Dispatch-time.Second), a.At, a); found {
		since = earlier(since, t.Add(-time.Second))
	}
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		if e.job == nil || e.lo.After(a.At) {
			return false
		}
		carries := e.job.Payload == a.Payload || (e.vague && !slices.Contains(e.op.Fields, "payload"))
		return carries && !e.until.Add(c.k.Dispatch+c.k.Apply).Before(since)
	})
}

// numbers: S2, attempts are counted from 1 without going back, one number to a token unless the count was
// lost in a crash.
func (c runRules) numbers(r *run) {
	for i := 1; i < len(r.attempts); i++ {
		before, a := r.attempts[i-1], r.attempts[i]
		if a.Number < before.Number && !c.overtaken(before, a) && !afresh(r, before.At, a.At) &&
			!c.lapses.countLost(r, before, a) {
			c.addf("S2", r.job.String(), "run %s: attempt %d came after attempt %d", r.id, a.Number, before.Number)
		}
		same := a.Number == before.Number && a.Token != before.Token
		if same && !c.fault(r.job, before.At.Add(-time.Second), a.At, nil) && !afresh(r, before.At, a.At) {
			c.addf("S2", r.job.String(), "run %s: two attempts have the number %d", r.id, a.Number)
		}
	}
}

// overtaken reports whether an attempt came after a later one since something held it up.
func (w *world) overtaken(by, a *Attempt) bool {
	return a.Number < by.Number && w.sent(a).Before(by.At)
}

// sent is the earliest that an attempt may have been on its way to the worker: when it was handed out, if
// that was shortly before it came, or something held it up.
func (w *world) sent(a *Attempt) time.Time {
	since := w.begun(a)
	for f := range w.holding(a) {
		since = earlier(since, f.From)
	}
	if a.Started.After(since) && a.Started.Before(a.At) {
		since = a.Started
	}
	return since
}

// holding are the faults that may have held an attempt up.
func (w *world) holding(a *Attempt) iter.Seq[*Fault] {
	return func(yield func(*Fault) bool) {
		for i := range w.h.Faults {
			f := &w.h.Faults[i]
			if f.Holds && !f.From.After(a.At) && !f.To.Before(a.At.Add(-w.k.Dispatch)) && !yield(f) {
				return
			}
		}
	}
}

// fresh: S9, no attempt comes when its lease has certainly ended, since it may go on elsewhere. A halted node
// lets go of what it was just sending, and a link of what no node can take back.
func (c runRules) fresh(r *run) {
	for _, a := range r.attempts {
		late := a.At.Sub(a.Started.Add(a.Lease))
		if a.Lease == 0 || late <= c.k.Dispatch+time.Second {
			continue
		}
		held := false
		for f := range c.holding(a) {
			sending := a.Started.After(f.From.Add(-c.k.Dispatch)) && !a.Started.After(f.From.Add(c.k.Apply))
			held = held || f.Outside || sending
		}
		if !held {
			c.addf("S9", r.job.String(), "run %s: attempt %d came %v after its lease had ended", r.id, a.Number, late)
		}
	}
}

// afresh reports whether a run may have begun to count its attempts again: it was redriven.
func afresh(r *run, from, to time.Time) bool {
	return slices.ContainsFunc(r.job.ops, func(o *Op) bool {
		return o.Kind == Redrive && o.Outcome != Fail && !o.Invoke.After(to) &&
			(o.Outcome == Info || !o.Return.Before(from)) &&
			(o.RunID == "" || o.RunID == r.id)
	})
}

// doneIsDone: S4, nothing begins after the run's success was acknowledged, except the same message come
// twice.
func (c runRules) doneIsDone(r *run) {
	lapseRules(c).doneInVain(r)
	for _, res := range r.results {
		if res.Kind != Success || res.Verdict != Acked {
			continue
		}
		for i, a := range r.attempts {
			if c.sent(a).After(res.Told) && r.pos[a.Token] == i {
				c.addf("S4", r.job.String(), "run %s: attempt %d began %v after the success was acknowledged",
					r.id, a.Number, a.At.Sub(res.Told))
			}
		}
		return
	}
}

// staleIsRefused: S5, one attempt's completion counts, none counts after a newer attempt has begun, a made-up
// token never does, and asking again gives the same answer.
func (c runRules) staleIsRefused(r *run) {
	counted, said := map[string]bool{}, map[string]ResultVerdict{}
	for _, res := range r.results {
		if res.Kind == Success && res.Verdict != None && c.lapses.fromLost(res.Told) == nil {
			if v, ok := said[res.Token]; ok && v != res.Verdict {
				c.addf("S5", r.job.String(), "run %s: the success of attempt %d was answered %s and then %s",
					r.id, res.Number, v, res.Verdict)
			}
			said[res.Token] = res.Verdict
		}
		if res.Verdict != Acked || res.Kind == Progress {
			continue
		}
		i, known := r.pos[res.Token]
		if res.Kind == Fabricated || !known {
			c.addf("S5", r.job.String(), "run %s: a result with a token that no attempt had was accepted", r.id)
			continue
		}
		if res.Kind == Success {
			counted[res.Token] = true
		}
		c.newer(r, res, i)
		c.fenced(r, res, r.attempts[i])
	}
	if len(counted) > 1 {
		c.addf("S5", r.job.String(), "run %s: %d attempts succeeded", r.id, len(counted))
	}
}

// newer looks for an attempt that had begun before the result of an older one was accepted. What a deposed
// owner handed out was never in force.
func (c runRules) newer(r *run, res *Result, i int) {
	for k := i + 1; k < len(r.attempts); k++ {
		a := r.attempts[k]
		if a.Token == res.Token || !a.At.Before(res.Sent) || a.Number < res.Number || r.pos[a.Token] != k {
			continue
		}
		again := slices.ContainsFunc(r.results, func(o *Result) bool {
			// sent before: the same answer again
			return o.Token == res.Token && o.Kind == res.Kind && !o.Sent.After(a.At)
		})
		if !again && !c.fault(r.job, a.At.Add(-time.Second), res.Sent, nil) {
			c.addf("S5", r.job.String(),
				"run %s: the result of attempt %d was accepted after attempt %d had begun", r.id, res.Number, a.Number)
			return
		}
	}
}

// fenced: S5, a put with another payload, and a delete, end the attempts in force: their results change
// nothing.
func (c runRules) fenced(r *run, res *Result, a *Attempt) {
	if a.Payload == "" || redriven(r, res.Sent) {
		return
	}
	for _, e := range r.job.effects {
		ends := e.op.deletes() || (e.job != nil && !e.vague && e.job.Payload != a.Payload)
		if ends && e.op.Outcome == OK && !e.lo.Before(a.At) && e.hi.Add(c.k.Apply).Before(res.Sent) &&
			!said(r, res, e.hi) {
			c.addf("S5", r.job.String(),
				"run %s: the result of attempt %d was accepted at %s, after the %s at %s had fenced it", r.id, res.Number,
				c.show(res.Sent), e.op.Kind, c.show(e.lo))
			return
		}
	}
}

// tenant: S13, a worker sees runs of its own namespace only.
func (c runRules) tenant(r *run) {
	for _, a := range r.attempts {
		if a.Tenant != "" && a.Tenant != a.Namespace {
			c.addf("S13", r.job.String(), "run %s came to a worker of namespace %s", r.id, a.Tenant)
		}
	}
}
