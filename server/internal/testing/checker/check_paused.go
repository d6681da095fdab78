package checker

import (
	"slices"
	"time"
)

// QueuePaused is the kind of a fault under which a queue is paused. Its one target is a namespace and a
// queue, with "/" between them. Fault.Shut is when the pause was acknowledged, and Fault.Opened when its end
// was asked for.
const QueuePaused = "worker queue paused"

// pausedRules are about queues that are paused: S18.
type pausedRules struct{ *check }

// held: S18, once a pause is acknowledged nothing of the queue is handed out before its end is asked for.
// What was on its way comes within Constants.Dispatch.
func (c pausedRules) held() {
	for i := range c.h.Faults {
		f := &c.h.Faults[i]
		if f.Kind != QueuePaused || f.Shut.IsZero() {
			continue
		}
		s := span{f.Shut.Add(c.k.Dispatch), c.opened(f)}
		for k := range c.h.Attempts {
			a := &c.h.Attempts[k]
			if during(a, s) && c.surelyOf(a, f.Targets[0]) {
				c.addf("S18", a.Namespace+"/"+a.Job, "attempt %d of run %s went to %s at %s, though its queue is paused "+
					"from %s to %s", a.Number, a.RunID, a.Worker, c.show(a.At), c.show(f.Shut), c.show(s.to))
			}
		}
	}
}

// opened is when a pause may have ended: when somebody asked for it, perhaps for the end of an earlier pause.
func (c pausedRules) opened(f *Fault) time.Time {
	to := f.Opened
	for i := range c.h.Faults {
		g := &c.h.Faults[i]
		if g.Kind == QueuePaused && g.Targets[0] == f.Targets[0] && g.To.After(f.From) {
			to = earlier(to, g.Opened)
		}
	}
	return to
}

// surelyOf reports whether an attempt is one of a queue, whatever definition of its job it is of.
func (c pausedRules) surelyOf(a *Attempt, queue string) bool {
	r := c.runs[a.RunID]
	return r != nil && !slices.ContainsFunc(r.job.effects, func(e *effect) bool {
		return e.job != nil && a.Namespace+"/"+e.job.Queue != queue
	})
}

// mayBeIn reports whether a definition of the job may have had its runs go through a queue.
func (j *job) mayBeIn(queue string) bool {
	return slices.ContainsFunc(j.ops, func(o *Op) bool { return o.Spec != nil && o.Spec.Queue == queue })
}
