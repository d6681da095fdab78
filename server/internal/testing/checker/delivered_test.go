package checker

import (
	"slices"
	"testing"
	"time"
)

// inDoubt is a run that was handed out just before a kill, and again by the next owner, under its own id and
// token.
func inDoubt() *tale {
	t := steady("a")
	t.Results = append(t.Results[:1], t.Results[2:]...)
	t.Faults = []Fault{{Kind: "kill", From: sec(20.5), To: sec(22)}}
	t.claim(0, 1, "x.1", 0)
	t.claim(0, 2, "x.2", 22)
	again := t.Attempts[1]
	again.At, again.Node, again.Epoch, again.InDoubt = sec(22.1), "x", 1, 1
	t.Attempts = slices.Insert(t.Attempts, 2, again)
	t.Results = slices.Insert(t.Results, 1,
		Result{RunID: again.RunID, Token: again.Token, Number: 1, Kind: Success, Sent: sec(22.2),
			Told: sec(22.21), Verdict: Acked})
	t.ended("a", "succeeded", 20, 22.21).Attempt = 1
	return t
}

// pausedInDoubt is a run that a killed node may have handed out. Its job was paused, and the next node
// halted, before it was made again.
func pausedInDoubt() *tale {
	t := paused()
	t.Ops[1].Invoke, t.Ops[1].Return = sec(14), sec(14.1)
	t.Faults = []Fault{{Kind: "kill", From: sec(10.5), To: sec(12)},
		{Kind: "freeze", From: sec(16.5), To: sec(19)}}
	t.Attempts[0].InDoubt = 1
	t.moved(0, 22)
	return t
}

// repeated is a job that runs twice, and was killed meanwhile.
func repeated() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Repeats: 2, Payload: "p"}, 0, 10)
	t.ran("a", 10, 10.1)
	t.ran("a", 20, 20.1)
	t.Faults = []Fault{{Kind: "kill", From: sec(20.2), To: sec(22)}}
	return t
}

// deliveries are histories that deny what consumers had.
var deliveries = []corruption{
	{"passed over though it had left", "S12", inDoubt, func(t *tale) {
		t.Attempts, t.Results, t.Final.Runs = slices.Delete(t.Attempts, 2, 3), slices.Delete(t.Results, 1, 2), nil
		t.skipped("a", "misfire", 20, 20, 1, 30.01)
	}},
	{"skipped though it had left", "S12", inDoubt, func(t *tale) {
		r := &t.Final.Runs[0]
		r.Status, r.Reason, r.Attempt = "skipped", "misfire", 0
	}},
	{"an attempt more than it says", "S12", inDoubt, func(t *tale) { t.Attempts[2].Number = 2 }},
	{"under an ended term and not in doubt", "S6", inDoubt, func(t *tale) { t.Attempts[2].InDoubt = 0 }},
	{"made again by who is not the owner", "S6", inDoubt, func(t *tale) { t.Attempts[2].Node = "y" }},
	{"begun in a pause, and not in doubt", "S2", pausedInDoubt, func(t *tale) { t.Attempts[0].InDoubt = 0 }},
	{"in doubt by the history only", "S2", func() *tale {
		t := pausedInDoubt()
		t.Attempts[0].InDoubt = 0
		r := t.ended("a", "succeeded", 10, 22.11)
		r.Attempt, r.InDoubt = 1, 1
		return t
	}, func(t *tale) { t.Final.Runs[len(t.Final.Runs)-1].InDoubt = 0 }},
	{"in doubt, and nothing had ended", "S2", pausedInDoubt, func(t *tale) { t.Faults = t.Faults[1:] }},
	{"in doubt of what ended before it was due", "S2", pausedInDoubt,
		func(t *tale) { t.Faults[0].From, t.Faults[0].To = sec(1), sec(2) }},
	{"in doubt of what ended long after the pause", "S2", pausedInDoubt,
		func(t *tale) { t.Faults[0].From, t.Faults[0].To = sec(17), sec(18) }},
	{"in doubt of a worker that was lost", "S2", pausedInDoubt,
		func(t *tale) { t.Faults[0].Kind = "worker crash" }},
	{"in doubt of nodes that left in order", "S2", pausedInDoubt, func(t *tale) { t.Faults[0].Orderly = true }},
	{"in doubt of a clock that was wrong", "S2", pausedInDoubt,
		func(t *tale) { t.Faults[0].Skew = time.Second }},
	{"in doubt, and its time came in the pause", "S2", pausedInDoubt,
		func(t *tale) { t.attempt("a", 20, 22.1, 1).InDoubt = 1 }},
	{"a run more than it repeats", "S2", repeated, func(t *tale) { t.ran("a", 30, 30.1) }},
}

func TestWhatWasDeliveredIsNotDenied(t *testing.T) {
	t.Parallel()
	for _, c := range deliveries {
		t.Run(c.name, c.test)
	}
}
