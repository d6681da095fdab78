package checker

import (
	"testing"
	"time"
)

// shut is a job whose queue was paused when it was due.
func shut() *tale {
	t := steady("a")
	t.Ops[0].Spec.Queue = "red"
	t.Faults = []Fault{{Kind: QueuePaused, Targets: []string{"n/red"}, From: sec(18), Shut: sec(18.1),
		Opened: sec(24), To: sec(24.1)}}
	t.moved(1, 24.05)
	return t
}

// TestPausedQueues: a run that is due in a pause waits for its end, and for nothing else.
func TestPausedQueues(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tale)
		want   string // the invariant that is broken
	}{
		"it waits":                             {func(*tale) {}, ""},
		"it does not wait":                     {func(h *tale) { h.moved(1, 20.1) }, "S18"},
		"the pause was not acknowledged":       {func(h *tale) { h.moved(1, 20.1); h.Faults[0].Shut = time.Time{} }, ""},
		"it was on its way":                    {func(h *tale) { h.moved(1, 20.1); h.Faults[0].Shut = sec(19.5) }, ""},
		"it waits on":                          {func(h *tale) { h.moved(1, 26) }, "L1"},
		"another queue is paused":              {func(h *tale) { h.Faults[0].Targets[0] = "n/blue" }, "L1"},
		"the queue of another namespace is":    {func(h *tale) { h.Faults[0].Targets[0] = "m/red" }, "L1"},
		"an earlier pause was ended meanwhile": {ended, ""},
	} {
		h := shut()
		c.change(h)
		found := ""
		for _, v := range Check(h.History, Spec{}).Violations {
			found = v.Invariant
		}
		if found != c.want {
			t.Errorf("%s: %q, want %q", name, found, c.want)
		}
	}
}

// ended is that the end of an earlier pause was still on its way.
func ended(h *tale) {
	h.moved(1, 20.1)
	h.Faults = append(h.Faults, Fault{Kind: QueuePaused, Targets: []string{"n/red"}, From: sec(12), Shut: sec(12.1),
		Opened: sec(17), To: sec(19)})
}
