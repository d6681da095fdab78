package checker

import (
	"encoding/json"
	"slices"
)

// overlay is base with the named fields of from, by their JSON names.
func overlay(base, from Job, fields []string) Job {
	a, b := object(base), object(from)
	for _, f := range fields {
		if v, ok := b[f]; ok {
			a[f] = v
		} else {
			delete(a, f)
		}
	}
	var out Job
	text, err := json.Marshal(a)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return from // both came from a Job: this cannot be
	}
	return out
}

func object(j Job) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	text, err := json.Marshal(j)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

// retimes reports whether an operation may count a job's times again: a patch does only if it names one of
// them.
func (o *Op) retimes() bool {
	times := []string{"schedule", "zone", "due", "relative", "due_in", "ttl", "expires"}
	return o.defines() && (o.Kind != Patch ||
		slices.ContainsFunc(o.Fields, func(f string) bool { return slices.Contains(times, f) }))
}

// fences reports whether an operation may end attempts in force: a patch does not if it names notes and the
// like alone.
func (o *Op) fences() bool {
	notes := []string{"note", "labels", "priority", "depends_on", "paused", "keep_runs"}
	return o.defines() && (o.Kind != Patch ||
		slices.ContainsFunc(o.Fields, func(f string) bool { return !slices.Contains(notes, f) }))
}

// pauses says whether an effect leaves the job paused; known is false if it says nothing about it.
func (e *effect) pauses() (paused, known bool) {
	switch {
	case e.op.Kind == Pause:
		return true, true
	case e.op.Kind == Resume, e.op.deletes():
		return false, true
	case e.op.Kind == Patch:
		return e.op.Spec.Paused, slices.Contains(e.op.Fields, "paused")
	case e.op.defines():
		return e.op.Spec.Paused, true
	}
	return false, false
}

// keepTimes finds out until when the times of each definition may have been in force: those after it may have
// kept them. Which those are, calls that waited for the node do not tell by when they were made.
func keepTimes(all []*effect) {
	for _, e := range all {
		e.timed = e.until
	}
	for changed := true; changed; {
		changed = false
		for _, e := range slices.Backward(all) {
			for _, x := range all {
				keeps := e.job != nil && x.job != nil && x.timed.After(e.timed) && !e.after(x) &&
					(sameTimes(e.job, x.job) || !x.op.retimes())
				if keeps {
					e.timed, changed = x.timed, true
				}
			}
		}
	}
}
