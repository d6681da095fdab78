package checker

import (
	"testing"
	"time"
)

// besideBefore is a job whose runs could go on side by side until 25 s. The run of 10 s ends at 41 s, which
// lets the newest time begin; that of 20 s ends before a worker sees it, when a newer time is due.
func besideBefore() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Lease: time.Minute, Overlap: "allow"}, 0, 10)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "p",
		Lease: time.Minute, KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(30), Changed: true}}, 25, 25.01)
	t.attempt("a", 10, 10.1, 1)
	t.said(Success, 49.5)
	t.attempt("a", 20, 20.1, 1)
	t.said(Success, 50.1)
	t.skipped("a", "misfire", 30, 30, 1, 49.51)
	t.ran("a", 40, 50.2)
	t.ran("a", 50, 50.5)
	t.is("a").Generation = 2
	return t
}

func TestARunBesideLetsNoneBegin(t *testing.T) {
	corruption{"an older one ran, and they never went side by side", "S12", besideBefore, func(t *tale) {
		t.Ops[0].Spec.Overlap = ""
	}}.test(t)
}
