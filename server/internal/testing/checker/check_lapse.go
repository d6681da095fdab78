package checker

import (
	"maps"
	"slices"
	"time"
)

// lapseRules are about a store that goes back: S4, S17.
type lapseRules struct{ *check }

// A store that follows asynchronously lacks the last commits when it is promoted: the store goes back
// (Fault.Back). What was committed in between is lost, and nothing else is. An operation that may have been
// committed then is one of unknown outcome, that surely has no effect any more if it was called and answered
// in between; a result that was acknowledged then has no answer. The rest of the history is judged as ever,
// and what is special by the rules here. Only the order of a job's operations (linear.go) is judged by the
// answers that there were: the store goes back between two of them.

// lapses are the times at which the store went back, and what may have been lost by that.
type lapses struct {
	*world
	went   []*Fault
	lost   map[*Op]loss
	unkept map[*Result]answered
}

// loss is what is known of an operation that may have been lost.
type loss struct {
	lapse *Fault
	was   Op   // as its caller was told
	sure  bool // all of it was in the stretch that is lost
}

// answered is what was told of a result that may have been lost.
type answered struct {
	lapse *Fault
	at    time.Time
}

// losses finds out what may have been lost, in a copy of the history.
func (ls *lapses) losses() {
	for i := range ls.h.Faults {
		if f := &ls.h.Faults[i]; !f.Back.IsZero() {
			ls.went = append(ls.went, f)
		}
	}
	if len(ls.went) == 0 {
		return
	}
	h := *ls.h
	h.Ops, h.Results = slices.Clone(h.Ops), slices.Clone(h.Results)
	ls.h, ls.lost, ls.unkept = &h, map[*Op]loss{}, map[*Result]answered{}
	for _, f := range ls.went {
		for i := range h.Ops {
			ls.mayLose(f, &h.Ops[i])
		}
		for i := range h.Results {
			ls.mayForget(f, &h.Results[i])
		}
	}
}

// mayLose notes an operation that the store may have gone back to before.
func (ls *lapses) mayLose(f *Fault, o *Op) {
	_, known := ls.lost[o]
	during := o.Invoke.Before(f.Back) && (o.Outcome == Info || !o.Return.Before(f.From))
	if known || o.Outcome == Fail || o.Kind == Get || o.Kind == List || !during && !unaware(f, o) {
		return
	}
	ls.lost[o] = loss{f, *o, o.Outcome == OK && o.Invoke.After(f.From) && o.Return.Before(f.Back)}
	o.Outcome = Info
}

// unaware reports whether an operation may have been answered by an owner that had not noticed that the store
// went back, since it changed nothing: then it may be that there was something to change.
func unaware(f *Fault, o *Op) bool {
	if o.Outcome == Info || o.Return.Before(f.Back) || o.Invoke.After(f.To) {
		return false
	}
	switch o.Kind {
	case Put, BatchPut, Patch:
		return o.Outcome == Fail || !o.Answer.Created && !o.Answer.Changed
	case Get, Pause, Resume, PutNamespace:
		return true
	}
	return o.Outcome == Fail
}

// mayForget notes a result that may have been acknowledged in the stretch that is lost, or by an owner that
// has not noticed it.
func (ls *lapses) mayForget(f *Fault, r *Result) {
	if r.Verdict != Acked || r.Kind == Fabricated || r.Told.Before(f.From) || !r.Sent.Before(f.To) {
		return
	}
	again := slices.ContainsFunc(ls.h.Results, func(o Result) bool {
		return o.Token == r.Token && o.Sent.Before(f.Back)
	})
	if r.Sent.Before(f.Back) || again {
		ls.unkept[r] = answered{f, r.Told}
		r.Verdict, r.Told = None, time.Time{}
	}
}

// wentBack is the lapse in whose lost stretch an instant is; nil = none.
func (ls *lapses) wentBack(t time.Time) *Fault {
	for _, f := range ls.went {
		if f.From.Before(t) && t.Before(f.Back) {
			return f
		}
	}
	return nil
}

// fromLost is the lapse because of which what was heard at an instant may be of the history that is lost; nil
// = it is not.
func (ls *lapses) fromLost(t time.Time) *Fault {
	for _, f := range ls.went {
		if f.From.Before(t) && !t.After(f.To) {
			return f
		}
	}
	return nil
}

// sureAgain is when an effect's definition surely was the job once more, since all that came after it was
// lost.
func (ls *lapses) sureAgain(j *job, e *effect, f *Fault) (s span, again bool) {
	s = span{f.To.Add(ls.k.Apply), ls.h.End}
	for _, x := range j.effects {
		// pauses are asked about time by time
		if x == e || e.after(x) || x.op.Kind == Pause || x.op.Kind == Resume {
			continue
		}
		again = again || x.undone == f
		if x.undone != f {
			s.to = earlier(s.to, x.lo.Add(-ls.k.Apply))
		}
	}
	return s, again && e.hi.Before(f.From) && s.from.Before(s.to)
}

// vanished reports whether nothing is left of a run: all its attempts were handed out in a stretch that is
// lost, and it was not made again.
func (ls *lapses) vanished(r *run) bool {
	return len(ls.went) > 0 && len(r.records) == 0 &&
		!slices.ContainsFunc(r.attempts, func(a *Attempt) bool { return !ls.forgotten(a.At) })
}

// ranInVain reports whether a run vanished with what had let it begin: the end of another one of its
// schedule, the success of a job that it comes after, or a call. None of that is known any more, so that its
// time came while it had to wait, and the rules of overlap and misfire may pass over it. What could have
// begun without is in doubt, and made again.
func (ls *lapses) ranInVain(r *run) bool {
	if !ls.vanished(r) {
		return false
	}
	return ls.lostCall(r) || ls.lostWin(r) || slices.ContainsFunc(r.job.runs, func(o *run) bool {
		before := o.first()
		return before.Cause == CauseSchedule && before.Scheduled.Before(r.first().Scheduled) &&
			ls.goesOnAgain(o, r.first().At)
	})
}

// lostCall reports whether a call is lost that may have let a run begin: one that ended another run, or a
// pause, or changed the job. A trigger and a backfill have runs of their own.
func (ls *lapses) lostCall(r *run) bool {
	return slices.ContainsFunc(r.job.ops, func(o *Op) bool {
		_, lost := ls.lost[o]
		beside := o.Kind == Trigger || o.Kind == Backfill || o.Kind == BackfillCancel
		return lost && !beside && !o.Invoke.After(r.first().At)
	})
}

// lostWin reports whether a success is lost of a job that a run came after.
func (ls *lapses) lostWin(r *run) bool {
	a := r.first()
	return ls.hadRule(r.job, a.Scheduled, a.At, func(s *Job) bool {
		return slices.ContainsFunc(s.After,
			func(name string) bool { return ls.wonInVain(ls.jobs[key{r.job.namespace, name}], a.At) })
	})
}

// wonInVain reports whether a success of a job that was told of by an instant may be lost. Of a job of which
// nothing is known it may be.
func (ls *lapses) wonInVain(j *job, by time.Time) bool {
	if j == nil {
		return true
	}
	if j.wins == nil {
		j.wins = ls.winsOf(j)
	}
	return slices.ContainsFunc(j.wins, func(win span) bool {
		return !win.from.After(by) && slices.ContainsFunc(ls.went,
			func(f *Fault) bool { return win.to.After(f.From) && !by.After(f.To) })
	})
}

// goesOnAgain reports whether a run may have been going on when the stretch began that is lost and in which
// something was handed out. That it was over is durable when its consumer is told.
func (ls *lapses) goesOnAgain(r *run, at time.Time) bool {
	to := ls.possible(r, len(r.attempts)-1).to
	return slices.ContainsFunc(ls.went, func(f *Fault) bool {
		over := slices.ContainsFunc(r.results, func(res *Result) bool {
			return (res.Kind == Success || res.Kind == Permanent) && res.Verdict == Acked && !res.Told.After(f.From)
		})
		return !at.After(f.To) && !over && to.After(f.From.Add(-lazy))
	})
}

// forgets reports whether the store need not know, after a lapse, of what was handed out at an instant.
func (f *Fault) forgets(t time.Time) bool { return t.After(f.From.Add(-lazy)) && !t.After(f.To) }

// forgotten reports whether the store need not know of what was handed out at an instant: it was lost, or not
// yet durable.
func (ls *lapses) forgotten(t time.Time) bool {
	return slices.ContainsFunc(ls.went, func(f *Fault) bool { return f.forgets(t) })
}

// undoneBy reports whether an operation surely has no effect any more at an instant.
func (ls *lapses) undoneBy(o *Op, t time.Time) bool {
	l, lost := ls.lost[o]
	return lost && l.sure && t.After(l.lapse.To)
}

// remembered is how long nodes may go by settings of namespaces that are lost: they are read again every 5 s.
const remembered = 5 * time.Second

// unset is when limits that were lost are in force no more.
func (ls *lapses) unset(o *Op) time.Time {
	if l, lost := ls.lost[o]; lost && l.sure {
		return l.lapse.To.Add(remembered + ls.k.Dispatch)
	}
	return ls.never()
}

// unnoticed reports whether an attempt came from an owner that had not noticed that the store went back:
// another may have been the owner then, and be it again.
func (ls *lapses) unnoticed(a *Attempt) bool {
	return slices.ContainsFunc(ls.reach.owned[a.Partition], func(t term) bool {
		return t.epoch == a.Epoch && slices.ContainsFunc(ls.went, func(f *Fault) bool {
			return t.claimed.Before(f.Back) && a.At.After(f.Back) && !a.At.After(f.To)
		})
	})
}

// countLost reports whether the count of a run's attempts may have gone back: some were handed out in the
// stretch that is lost. Those before it are not forgotten.
func (ls *lapses) countLost(r *run, before, a *Attempt) bool {
	return slices.ContainsFunc(ls.went, func(f *Fault) bool {
		kept := 0
		for _, x := range r.attempts {
			if !x.At.After(f.From.Add(-lazy)) {
				kept = max(kept, x.Number)
			}
		}
		return f.forgets(before.At) && a.At.After(f.Back) && a.Number >= kept
	})
}

// doneInVain: S4, until the store goes back nothing begins after a success that is lost then.
func (c lapseRules) doneInVain(r *run) {
	for _, res := range r.results {
		ack, lost := c.lapses.unkept[res]
		if !lost || res.Kind != Success {
			continue
		}
		for i, a := range r.attempts {
			if c.sent(a).After(ack.at) && a.At.Before(ack.lapse.Back) && r.pos[a.Token] == i {
				c.addf("S4", r.job.String(), "run %s: attempt %d began %v after the success was acknowledged", r.id,
					a.Number, a.At.Sub(ack.at))
			}
		}
	}
}

// branch is what the store held when it later went back to that.
type branch struct {
	lapse  *Fault
	states map[string]Write
	over   bool
}

// branches are those of the lapses.
type branches []*branch

func (ls *lapses) branches() branches {
	var out branches
	for _, f := range ls.went {
		out = append(out, &branch{lapse: f})
	}
	return out
}

// at is what the store holds before a write at an instant, if it held the states after the write before.
func (b branches) at(t time.Time, states map[string]Write) map[string]Write {
	for _, x := range b {
		if x.states == nil && t.After(x.lapse.From) {
			x.states = maps.Clone(states)
		}
		if !x.over && t.After(x.lapse.Back) && x.states != nil {
			for id := range states {
				if _, kept := x.states[id]; !kept {
					x.states[id] = Write{RunID: id} // there is no record of it
				}
			}
			states, x.over = x.states, true
		}
	}
	return states
}

// mixed: S17, what goes on after the store went back has nothing of what is lost.
func (c lapseRules) mixed() {
	for _, k := range c.keys {
		j := c.jobs[k]
		for _, rec := range j.records {
			wrong := c.wrong(j, rec.Finished, rec.Finished)
			f := c.lapses.wentBack(rec.Finished.Add(-wrong))
			if f != nil && f == c.lapses.wentBack(rec.Finished.Add(wrong)) {
				c.addf("S17", k.String(), "run %s is in the history as %s at %s, and the store went back to %s",
					rec.RunID, rec.Status, c.show(rec.Finished), c.show(f.From))
			}
		}
		for _, e := range j.effects {
			if e.undone != nil && j.final != nil && e.saysNow(j.final.Payload) && !c.saidElse(j, e) {
				c.addf("S17", k.String(), "at the end it has payload %q of the %s at %s, which is lost",
					j.final.Payload, e.op.Kind, c.show(e.op.Invoke))
			}
		}
	}
}

// saysNow reports whether an operation gave its job a payload.
func (e *effect) saysNow(payload string) bool {
	named := e.op.Kind != Patch || slices.Contains(e.op.Fields, "payload")
	return e.op.defines() && named && e.op.Spec.Payload == payload
}

// saidElse reports whether another operation, that is not lost, says the same of the job.
func (c lapseRules) saidElse(j *job, e *effect) bool {
	return slices.ContainsFunc(j.effects, func(x *effect) bool {
		return x.undone == nil && x.saysNow(e.op.Spec.Payload)
	})
}

// signAfter is 1 if there is proof that a put is in the history that goes on after the store went back, -1 if
// there is proof that it is not, and otherwise 0.
func (ls *lapses) signAfter(j *job, o *Op, l loss) int {
	unchanged := l.was.Outcome == OK && !l.was.Answer.Created && !l.was.Answer.Changed
	if o.Spec == nil || o.Spec.Payload == "" || unchanged {
		return 0
	}
	if ls.seenAfter(j, o, l.lapse) || j.final != nil && j.final.Payload == o.Spec.Payload {
		return 1
	}
	first, alone := true, true
	for _, x := range j.ops {
		switch changes := x.changes() || x.Kind == Redrive; {
		case x == o || x.Outcome == Fail || !changes:
		case ls.by(x).Before(l.lapse.From):
			first = false
		default:
			alone = false
		}
	}
	switch {
	case !alone || !ls.h.Final.Whole:
		return 0
	case j.final != nil: // nothing else can have taken its place
		return -1
	case !first:
		return 0
	case len(j.records) > 0:
		return 1
	}
	s, err := parse(o.Spec.Schedule, o.Spec.Zone, o.Spec.Literal)
	if o.Spec.Schedule != "" && err == nil && !endsByItself(o.Spec, s) && ls.complete(j) {
		return -1
	}
	return 0
}

// seenAfter reports whether what a put said of a job was seen when all had noticed that the store went back.
func (ls *lapses) seenAfter(j *job, o *Op, f *Fault) bool {
	return slices.ContainsFunc(j.ops, func(x *Op) bool {
		read := x.Kind == Get && x.Outcome == OK && x.Answer.Found && x.Answer.Payload == o.Spec.Payload
		return read && x.Invoke.After(f.To)
	}) || slices.ContainsFunc(j.runs, func(r *run) bool {
		return slices.ContainsFunc(r.attempts, func(a *Attempt) bool {
			return a.At.After(f.To) && a.Payload == o.Spec.Payload
		})
	})
}
