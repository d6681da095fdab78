package checker

import "time"

// tallied is a job that counts what its history says.
func tallied() *tale {
	t := steady("a")
	for s := 10.0; s < 60; s += 10 {
		t.ended("a", "succeeded", s, s+0.2).UID = "ua"
	}
	f, none := &t.Final.Jobs[0], uint64(0)
	f.Counters, f.Unfinished = Counters{Fired: 5, Succeeded: 5}, &none
	return t
}

// skippedAndRan is one a time of which was skipped by hand, and which was then put so that it has that time
// again.
func skippedAndRan() *tale {
	t := tallied()
	again := *t.Ops[0].Spec
	again.Due = sec(30)
	t.op(Op{Kind: Skip, Job: "a", Answer: Answer{NextRun: sec(30)}}, 25, 25.1)
	t.op(Op{Kind: Put, Job: "a", Spec: &again,
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(30), Changed: true}}, 26, 26.1)
	t.Final.Jobs[0].Generation, t.Final.Jobs[0].Counters.Skipped = 2, 1
	return t
}

// takenUp is one in which a run of its namesake was redriven that had died.
func takenUp() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p"}, 0, 5).Answer.UID = "old"
	t.attempt("a", 5, 5.1, 1)
	t.said(Permanent, 5.5)
	t.op(Op{Kind: Delete, Job: "a"}, 6, 6.1)
	t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 7, 17)
	t.op(Op{Kind: Redrive, Job: "a", RunID: "a@5"}, 10, 10.1)
	t.attempt("a", 5, 10.2, 2)
	t.said(Success, 10.4)
	t.ended("a", "succeeded", 5, 10.4).UID = "old"
	t.ranEach("a", 17, 10)
	for s := 17.0; s < 60; s += 10 {
		t.ended("a", "succeeded", s, s+0.2).UID = "ua"
	}
	f, none := t.is("a"), uint64(0)
	f.Counters, f.Unfinished = Counters{Fired: 6, Succeeded: 6}, &none
	return t
}

var miscounted = []corruption{
	{"a run that its job did not count", "S16", tallied,
		func(t *tale) { t.Final.Jobs[0].Counters = Counters{Fired: 4, Succeeded: 4} }},
	{"fired, and no end of it", "S16", tallied, func(t *tale) { t.Final.Jobs[0].Counters.Fired = 6 }},
	{"a skipped time that nobody skipped", "S16", tallied,
		func(t *tale) { t.Final.Jobs[0].Counters.Skipped = 1 }},
	{"a time skipped once, and counted twice", "S16", skippedAndRan,
		func(t *tale) { t.Final.Jobs[0].Counters.Skipped = 2 }},
	{"skipped, and no put brought it back", "S16", skippedAndRan, func(t *tale) {
		t.Ops[2].Invoke, t.Ops[2].Return = sec(24), sec(24.1)
	}},
	{"skipped, and another time came back", "S16", skippedAndRan,
		func(t *tale) { t.Ops[1].Answer.NextRun = sec(70) }},
	{"taken up, and counted nowhere", "S16", takenUp,
		func(t *tale) { t.Final.Jobs[0].Counters = Counters{Fired: 5, Succeeded: 5} }},
	{"counted though it ended before", "S16", takenUp,
		func(t *tale) { t.Final.Runs[0].Finished = sec(5.5).Add(time.Millisecond) }},
}
