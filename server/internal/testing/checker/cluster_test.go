package checker

import (
	"testing"
	"time"
)

// stampedElsewhere is a job that was put while it was paused, by way of a node whose clock was ahead: it
// counts its times from there.
func stampedElsewhere() *tale {
	t := newTale()
	t.Homes = map[string]int{"n/a": 1}
	t.claim(1, 1, "x.1", 0)
	t.claim(2, 1, "y.1", 0)
	t.Faults = []Fault{{Kind: "clock", Targets: []string{"y"}, From: sec(0), To: sec(2),
		Skew: 1500 * time.Millisecond}}
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "p", Paused: true, KeepRuns: 1000},
		Answer: Answer{Generation: 1, UID: "ua", Created: true, Changed: true}}, 1, 1.01)
	t.op(Op{Kind: Resume, Job: "a"}, 5, 5.1)
	t.ranEach("a", 12.4, 10)
	t.is("a")
	return t
}

// toldLate is a job that comes after another, two successes of which were told to it: one at once, and one
// when its partition was there again and it had begun with the first.
func toldLate() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 5s", Payload: "p"}, 0, 5)
	for s := 5.0; s <= 15; s += 5 {
		t.ran("a", s, s+0.1)
	}
	t.op(Op{Kind: Pause, Job: "a"}, 16, 16.1)
	t.put("b", Job{Schedule: "@every 9s", Payload: "p", After: []string{"a"}}, 0, 9)
	t.ran("b", 9, 9.1)
	t.ran("b", 18, 22)
	t.ran("b", 27, 27.1)
	t.Faults = []Fault{{Kind: "store refuses", From: sec(14), To: sec(21)}}
	t.is("a").Paused = true
	t.is("b")
	return t
}

// readBack is a batch whose answer was lost on its way from another node: its jobs were read, and one of them
// had run.
func readBack() *tale {
	t := answeredLate()
	t.Ops[0].Answer.NextRun = sec(20)
	t.Homes = map[string]int{"n/a": 1}
	t.claim(1, 1, "x.1", 0)
	return t
}

// readGone is a batch whose answer was lost on its way from another node: when its job was read somebody had
// deleted it.
func readGone() *tale {
	t := newTale()
	spec := Job{Schedule: "*/30 * * * * *", Payload: "p", KeepRuns: 1000}
	t.op(Op{Kind: BatchPut, Job: "a", Batch: "1", Spec: &spec, Answer: Answer{Changed: true}}, 1, 12)
	t.op(Op{Kind: Delete, Job: "a"}, 5, 5.1)
	t.put("b", Job{Payload: "p"}, 1, 10)
	t.ran("b", 10, 10.1)
	t.Faults = []Fault{{Kind: "lost acknowledgements", From: sec(0.5), To: sec(11)}}
	t.Homes = map[string]int{"n/a": 1}
	t.claim(1, 1, "x.1", 0)
	return t
}

// lowered are three jobs with a concurrency key whose limit is lowered while two of them hold its permits.
func lowered() *tale {
	t := newTale()
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 2}}, 0, 0.01)
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 1}}, 10.5, 10.6)
	for i, name := range []string{"a", "b", "c"} {
		t.put(name, Job{Payload: "p", ConcurrencyKey: "k", Lease: 30 * time.Second}, 1, 10)
		t.attempt(name, 10, 10.1+[]float64{0, 0, 3}[i], 1)
		t.said(Success, []float64{12, 13, 14}[i])
	}
	return t
}

// emptied is a job that waits while its limit is 0.
func emptied() *tale {
	t := newTale()
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 0}}, 0, 0.01)
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 1}}, 15, 15.1)
	t.put("a", Job{Payload: "p", ConcurrencyKey: "k"}, 1, 10)
	t.ran("a", 10, 15.2)
	return t
}

// amongNodes are histories of several nodes in which something is right, and the smallest change of each that
// is wrong.
var amongNodes = []corruption{
	{"counted from a clock that was not so far ahead", "S2", stampedElsewhere,
		func(t *tale) { t.Faults[0].Skew = 200 * time.Millisecond }},
	{"a success that was told long ago opens it again", "S12", toldLate, func(t *tale) { t.Faults = nil }},
	{"a batch is told what its job has become, and nothing was lost", "S2", readBack,
		func(t *tale) { t.Faults[0].To = sec(0.6) }},
	{"a node that is alone is told what its job has become", "S2", readBack, func(t *tale) { t.Homes = nil }},
	{"a batch is told that its job has gone, and nothing was lost", "S8", readGone,
		func(t *tale) { t.Faults[0].To = sec(0.6) }},
	{"a node that is alone is told that its job has gone", "S8", readGone, func(t *tale) { t.Homes = nil }},
	{"begun over a limit that was lowered", "S9", lowered, func(t *tale) { t.Attempts[2].At = sec(12.5) }},
	{"waited for longer than the limit was 0", "L1", emptied, func(t *tale) { t.moved(0, 19) }},
}

func TestAmongNodes(t *testing.T) {
	t.Parallel()
	for _, c := range amongNodes {
		t.Run(c.name, c.test)
	}
}
