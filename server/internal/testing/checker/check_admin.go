package checker

import (
	"cmp"
	"slices"
	"time"
)

// callRules are about what calls were answered, and what is there at the end: S3, S8, S11, S13.
type callRules struct{ *check }

// kept: S3, what was acknowledged is there at the end, unless something later may have taken its place.
func (c callRules) kept(j *job) {
	for _, e := range j.effects {
		last := e.op.Outcome == OK && !slices.ContainsFunc(j.effects, func(x *effect) bool {
			return x != e && x.undone == nil && !e.after(x)
		})
		if last && c.h.Final.Whole {
			c.isThere(j, e)
		}
	}
	for _, o := range j.ops {
		if o.Outcome != OK {
			continue
		}
		switch o.Kind {
		case Trigger:
			c.triggered(j, o)
		case Cancel:
			r := c.runs[o.RunID]
			if r == nil {
				break
			}
			last := r.attempts[len(r.attempts)-1]
			if c.sent(last).After(o.Return.Add(c.k.Dispatch)) && !afresh(r, o.Invoke, last.At) {
				c.addf("S3", j.String(), "run %s was attempted after its cancellation was acknowledged", r.id)
			}
		case Redrive:
			r := c.runs[o.RunID]
			ran := r != nil && !r.attempts[len(r.attempts)-1].At.Before(o.Invoke)
			lost := slices.ContainsFunc(j.records, func(rec FinalRun) bool { // its attempt went down with the node
				return rec.RunID == o.RunID && !rec.Finished.Before(o.Invoke.Add(-c.wrong(j, o.Invoke, o.Invoke)))
			})
			if o.RunID != "" && !ran && !(lost && c.unseen(j, o.Invoke, c.h.End)) && c.settled(j, o) {
				c.addf("S3", j.String(), "run %s was redriven and never attempted again", o.RunID)
			}
		}
	}
}

// unseen reports whether an attempt of a stretch of time may have been made and not seen by any worker.
func (c callRules) unseen(j *job, from, to time.Time) bool {
	return slices.ContainsFunc(c.reach.faults(j),
		func(f *Fault) bool { return f.Skew == 0 && !f.To.Before(from.Add(-time.Second)) && !f.From.After(to) })
}

// settled reports whether what an operation asked for must have come about by the end, and nothing may have
// prevented it.
func (w *world) settled(j *job, o *Op) bool {
	limited := slices.ContainsFunc(j.effects,
		func(e *effect) bool { return e.job != nil && e.job.ConcurrencyKey != "" })
	undone := slices.ContainsFunc(j.ops, func(x *Op) bool {
		return (x.deletes() || x.cancels() || x.Kind == Skip) && x.Outcome != Fail &&
			(x.Outcome == Info || !x.Return.Before(o.Invoke))
	})
	return !limited && !undone && w.complete(j) && !w.mayBePaused(j, o.Invoke, w.h.End) &&
		!deadline(o.Return, w.k.Dispatch, w.reach.bad(j)).After(w.h.End)
}

func (c callRules) triggered(j *job, o *Op) {
	id := o.Answer.RunID
	if id == "" || c.runs[id] != nil || j.known[id] {
		return
	}
	if c.settled(j, o) {
		c.addf("S3", j.String(), "the triggered run %s never ran", id)
	}
}

// isThere holds the last change of a job against what was read at the end.
func (c callRules) isThere(j *job, e *effect) {
	f := j.final
	back := func() bool { return c.broughtBack(j, c.h.End, c.h.End, f.Payload) }
	switch {
	case e.op.deletes() && f != nil && !back():
		c.addf("S3", j.String(), "it was deleted, and is there at the end with generation %d", f.Generation)
	case e.job != nil && f == nil && e.lasts():
		c.addf("S3", j.String(), "it was put with generation %d, and is not there at the end",
			e.op.Answer.Generation)
	case e.job != nil && f != nil && !e.vague && e.job.Payload != f.Payload && !back():
		c.addf("S3", j.String(), "its last acknowledged payload is %q, and at the end it has %q",
			e.job.Payload, f.Payload)
	case e.job != nil && f != nil && f.UID == e.op.Answer.UID && f.Generation < e.op.Answer.Generation:
		c.addf("S3", j.String(), "it was acknowledged with generation %d, and at the end it has %d",
			e.op.Answer.Generation, f.Generation)
	}
	if paused, known := e.pauses(); known && f != nil && !e.op.deletes() && f.Paused != paused {
		c.addf("S3", j.String(), "paused was acknowledged as %v, and is %v at the end", paused, f.Paused)
	}
}

// lasts reports whether the job does not end by itself.
func (e *effect) lasts() bool { return !e.vague && !e.alien && !endsByItself(e.job, e.sched) }

func endsByItself(j *Job, s *schedule) bool {
	years := s != nil && s.cron != nil && len(s.cron.year) < 200
	return j.Schedule == "" || s == nil || j.Repeats > 0 || j.TTL > 0 || !j.Expires.IsZero() ||
		s.runs > 0 || years
}

// batches: S11, a batch is there as a whole or not at all.
func (c callRules) batches() {
	batches, order := map[string][]*Op{}, []string{}
	for i := range c.h.Ops {
		if o := &c.h.Ops[i]; o.Kind == BatchPut && o.Batch != "" {
			if batches[o.Batch] == nil {
				order = append(order, o.Batch)
			}
			batches[o.Batch] = append(batches[o.Batch], o)
		}
	}
	for _, id := range order {
		var there, missing *Op
		for _, o := range batches[id] {
			switch c.sign(o) {
			case 1:
				there = cmp.Or(there, o)
			case -1:
				missing = cmp.Or(missing, o)
			}
		}
		if there != nil && missing != nil {
			c.addf("S11", there.Namespace+"/"+there.Job, "batch %s was applied to it, and not to %s", id, missing.Job)
		}
	}
}

// sign is 1 if there is proof that a put was applied, -1 if there is proof that it was not, and otherwise 0.
func (c callRules) sign(o *Op) int {
	j := c.jobs[key{o.Namespace, o.Job}]
	if l, lost := c.lapses.lost[o]; lost {
		return c.lapses.signAfter(j, o, l)
	}
	if o.Outcome != Info {
		return map[Outcome]int{OK: 1, Fail: -1}[o.Outcome]
	}
	alone := o.Spec != nil
	for _, x := range j.ops {
		alone = alone && (x == o || x.Outcome == Fail || !x.changes())
		if x.Kind == Get && x.Outcome == OK && x.Answer.Found && x.Answer.Payload != "" && o.Spec != nil &&
			x.Answer.Payload == o.Spec.Payload {
			return 1
		}
	}
	if !alone {
		return 0
	}
	switch {
	case j.final != nil || len(j.runs) > 0 || len(j.records) > 0:
		return 1
	case c.h.Final.Whole && o.Spec.Schedule != "" && c.complete(j):
		if s, err := parse(o.Spec.Schedule, o.Spec.Zone, o.Spec.Literal); err == nil && !endsByItself(o.Spec, s) {
			return -1
		}
	}
	return 0
}

// lists: S8 and S13 for lists: each entry is of the namespace that was asked for, and a value that its job
// may have had.
func (c callRules) lists() {
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		if o.Kind != List || o.Outcome != OK {
			continue
		}
		for _, ns := range o.Answer.Namespaces {
			if ns != o.Namespace {
				c.addf("S13", o.Namespace+"/"+o.Job, "a list of namespace %s shows one of %s", o.Namespace, ns)
			}
		}
		for _, l := range o.Answer.Listed {
			c.listed(o, l)
		}
	}
}

func (c callRules) listed(o *Op, l Listed) {
	k := key{l.Namespace, l.Job}
	if l.Namespace != o.Namespace {
		c.addf("S13", k.String(), "a list of namespace %s shows it", o.Namespace)
		return
	}
	j := c.jobs[k]
	since := o.Invoke.Add(-c.k.Dispatch - c.k.Apply)
	had := j != nil && slices.ContainsFunc(j.effects, func(e *effect) bool {
		if e.job == nil || e.lo.After(o.Return) || e.until.Before(since) {
			return false
		}
		return l.Payload == "" || e.job.Payload == l.Payload ||
			(e.vague && !slices.Contains(e.op.Fields, "payload"))
	})
	if !had && !(j != nil && c.broughtBack(j, since, o.Return, l.Payload)) {
		c.addf("S8", k.String(), "a list at %s shows it with payload %q, which it did not have then",
			c.show(o.Invoke), l.Payload)
	}
}

// adminTime is how long one job's operations may be put in order if nobody says.
const adminTime = 10 * time.Second
