package checker

import (
	"slices"
	"time"
)

// silenceRules are about workers that are silent: S15.
type silenceRules struct{ *check }

// silent: S15, a worker that let an attempt end without a word gets no more from that node before it speaks.
// While its process is stopped it says nothing; that the node knows is shown by the next attempt of the run.
func (c silenceRules) silent() {
	for i := range c.h.Faults {
		f := &c.h.Faults[i]
		if f.Kind != WorkerStopped {
			continue
		}
		for _, worker := range f.Targets {
			c.nothingFor(worker, span{f.From, f.To})
		}
	}
}

// nothingFor looks for what a worker was given after it had been found silent, while it was stopped.
func (c silenceRules) nothingFor(worker string, stopped span) {
	known := map[string]*Attempt{} // by node: the attempt that shows that it knows
	for i := range c.h.Attempts {
		a := &c.h.Attempts[i]
		if !during(a, stopped) {
			continue
		}
		if at := known[a.Node]; a.Worker == worker && at != nil && at.At.Before(a.At) {
			c.addf("S15", a.Namespace+"/"+a.Job,
				"attempt %d of run %s went to %s at %s, silent since %s at the latest", a.Number, a.RunID, worker,
				c.show(a.At), c.show(at.At))
			return
		}
		if c.letEnd(worker, a, stopped) && known[a.Node] == nil {
			known[a.Node] = a
			if a.Worker == worker {
				c.addf("S15", a.Namespace+"/"+a.Job,
					"run %s went back at %s to %s, which had let its lease end in silence", a.RunID, c.show(a.At), worker)
				return
			}
		}
	}
}

func during(a *Attempt, s span) bool { return !a.At.Before(s.from) && a.At.Before(s.to) }

// letEnd reports whether an attempt follows one of the same run that the worker let end while it was stopped.
func (c silenceRules) letEnd(worker string, a *Attempt, stopped span) bool {
	r := c.runs[a.RunID]
	if a.Number < 2 || r == nil || redriven(r, a.At) {
		return false
	}
	return slices.ContainsFunc(r.attempts, func(o *Attempt) bool {
		before := o.Number == a.Number-1 && during(o, stopped) && o.At.Before(a.At)
		return before && o.Worker == worker && o.Node == a.Node && !touched(r.job, o.At, a.At)
	})
}

// touched reports whether a client may have changed a job in a span: a change fences the attempt in force.
func touched(j *job, from, to time.Time) bool {
	return slices.ContainsFunc(j.ops, func(o *Op) bool {
		changes := o.Kind != Get && o.Kind != List && o.Outcome != Fail
		return changes && !o.Invoke.After(to) && !(o.Outcome == OK && o.Return.Before(from))
	})
}

// begins: S15, a worker that was stopped begins nothing of which a later attempt has been handed out.
func (c silenceRules) begins() {
	for i := range c.h.Begins {
		b := &c.h.Begins[i]
		r := c.runs[b.RunID]
		if r == nil {
			continue
		}
		for _, a := range r.attempts {
			if a.Number > b.Number && a.At.Before(b.At) {
				c.addf("S15", r.job.String(),
					"attempt %d of run %s was begun by %s at %s, though attempt %d was handed out at %s",
					b.Number, r.id, b.Worker, c.show(b.At), a.Number, c.show(a.At))
				break
			}
		}
	}
}
