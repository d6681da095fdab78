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
