package checker

import (
	"slices"
	"testing"
	"time"
)

// wentBack is a job that runs each ten seconds, and a store that goes back from 21 s to 19 s, which nobody
// notices before 22 s: the run of 20 s succeeded, and is made again.
func wentBack() *tale {
	t := steady("a")
	t.Faults = []Fault{{Kind: "lapse", From: sec(19), Back: sec(21), To: sec(22), Minor: true}}
	t.Attempts = append(t.Attempts, t.Attempts[1])
	t.Attempts[5].At, t.Attempts[5].Token = sec(22.5), "again"
	t.said(Success, 22.6)
	return t
}

// lostPut is a job whose second put is lost: its payload is seen until nodes have noticed that the store went
// back, and not again.
func lostPut() *tale {
	t := steady("a")
	t.Faults = []Fault{{Kind: "lapse", From: sec(19), Back: sec(21), To: sec(22), Minor: true}}
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 10s", Payload: "q", KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(20), Changed: true}}, 19.5, 19.6)
	t.Attempts[1].Payload = "q"
	t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 2, Payload: "q"}}, 20.5, 20.6)
	t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 2, Payload: "q"}}, 21.5, 21.6)
	t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 1, Payload: "p"}}, 22.5, 22.6)
	return t
}

// lostDelete is a job that was deleted, and is there again.
func lostDelete() *tale {
	t := lostPut()
	t.Attempts[1].Payload, t.Ops = "p", t.Ops[:1]
	t.op(Op{Kind: Delete, Job: "a"}, 20.5, 20.6)
	return t
}

// lostPause is a job whose pause is lost.
func lostPause() *tale {
	t := steady("a")
	t.Faults = []Fault{{Kind: "lapse", From: sec(28), Back: sec(29), To: sec(29.5), Minor: true}}
	t.op(Op{Kind: Pause, Job: "a"}, 28.5, 28.6)
	return t
}

// lostBatch is a batch that was on its way when the store went back, and is not there.
func lostBatch() *tale {
	t := steady("c")
	t.Faults = []Fault{{Kind: "lapse", From: sec(19), Back: sec(21), To: sec(22), Minor: true}}
	for _, name := range []string{"a", "b"} {
		t.op(Op{Kind: BatchPut, Batch: "1", Job: name,
			Spec:   &Job{Schedule: "@every 10s", Payload: "p" + name, KeepRuns: 1000},
			Answer: Answer{Generation: 1, UID: "u" + name, NextRun: sec(31), Created: true, Changed: true}}, 20.99,
			21.1)
	}
	return t
}

// keptBatch is one that is there.
func keptBatch() *tale {
	t := lostBatch()
	for _, name := range []string{"a", "b"} {
		for s := 31.0; s < 60; s += 10 {
			t.ran(name, s, s+0.1)
			t.Attempts[len(t.Attempts)-1].Payload = "p" + name
		}
		t.is(name).Payload = "p" + name
	}
	return t
}

// lostEnd is a job that skips times while a run goes on. That one run had ended, and the next begun, is lost:
// the one is made again, and the other one's time came meanwhile.
func lostEnd() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 1s", Overlap: "skip", Payload: "p"}, 18.5, 19.5)
	t.Faults = []Fault{{Kind: "lapse", From: sec(19), Back: sec(21), To: sec(22), Minor: true}}
	t.attempt("a", 19.5, 19.6, 1)
	t.said(Success, 19.7)
	t.ran("a", 20.5, 20.6)
	t.attempt("a", 19.5, 22.1, 1)
	t.said(Success, 22.2)
	t.skipped("a", "overlap", 20.5, 21.5, 2, 22.2)
	for s := 22.5; s < 60; s++ {
		t.ran("a", s, s+0.1)
	}
	t.is("a")
	return t
}

// lostNext is a job that runs each second, and the newest time of those that came meanwhile. That the run of
// 19.5 s had ended, and the next begun, is lost: the one is made again, and the other one's time is passed
// over. The store goes back to 19.65 s.
func lostNext() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 1s", Payload: "p"}, 18.5, 19.5)
	t.Faults = []Fault{{Kind: "lapse", From: sec(19.65), Back: sec(21), To: sec(22), Minor: true}}
	t.attempt("a", 19.5, 19.6, 1)
	t.said(Success, 19.7)
	t.ran("a", 20.5, 20.6)
	t.attempt("a", 19.5, 22.1, 1)
	t.said(Success, 22.2)
	t.skipped("a", "misfire", 20.5, 20.5, 1, 22.21)
	for s := 21.5; s < 60; s++ {
		t.ran("a", s, max(s, 22.2)+0.1)
	}
	t.is("a")
	return t
}

// asIfKept says that the end of the run of 19.5 s was durable: the next one needed nothing that is lost.
func asIfKept(t *tale) {
	t.Faults[0].From = sec(19.9)
	t.Attempts, t.Results = slices.Delete(t.Attempts, 2, 3), slices.Delete(t.Results, 2, 3)
}

// lostNextAnd is lostNext when the run before was durably over, and something else that let the next one
// begin is lost.
func lostNextAnd(lost func(t *tale)) func() *tale {
	return func() *tale {
		t := lostNext()
		asIfKept(t)
		lost(t)
		return t
	}
}

// afterB has the job come after b, which succeeds shortly before each of its times.
func afterB(t *tale) {
	t.Ops[0].Spec.After = []string{"b"}
	t.put("b", Job{Schedule: "@every 1s", Payload: "p"}, 18.25, 19.25)
	for s := 19.25; s < 60; s++ {
		t.ran("b", s, s+0.01)
	}
	t.is("b")
}

// lostGrant is a run whose grant is lost: the audit of the store goes back with it.
func lostGrant() *tale {
	t := owners()
	t.Faults = []Fault{{Kind: "lapse", From: sec(44), Back: sec(46), To: sec(47), Minor: true}}
	t.claim(1, 3, "z", 46.5)
	t.Writes = append(t.Writes,
		Write{Partition: 1, Epoch: 2, Node: "y", At: sec(45), RunID: "a@60", To: "granted", Attempt: 1},
		Write{Partition: 1, Epoch: 3, Node: "z", At: sec(47), RunID: "a@60", To: "granted", Attempt: 1})
	return t
}

// lostLimit is a limit that was raised, and is what it was again.
func lostLimit() *tale {
	t := newTale()
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 1}}, 0, 0.01)
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 2}}, 5, 5.1)
	t.Faults = []Fault{{Kind: "lapse", From: sec(4), Back: sec(6), To: sec(7), Minor: true}}
	for i, name := range []string{"a", "b"} {
		t.put(name, Job{Payload: "p", ConcurrencyKey: "k", Lease: 30 * time.Second}, 1, 10)
		t.attempt(name, 10, 10.1+float64(i), 1)
		t.said(Success, 20)
	}
	return t
}

// lapseCases are histories in which something is lost, or seems so, since the store went back, and the smallest
// change of each for which that is no excuse.
var lapseCases = []corruption{
	{"made again after a success that is kept", "S4", wentBack, func(t *tale) { t.Faults[0].From = sec(20.5) }},
	{"made again before the store went back", "S4", wentBack, func(t *tale) {
		t.Attempts[5].At, t.Results[5].Sent, t.Results[5].Told = sec(20.5), sec(20.6), sec(20.7)
	}},
	{"made again long after a success, and nothing was lost", "S4", wentBack,
		func(t *tale) { t.Faults[0].Back = time.Time{} }},
	{"a put that is lost comes back", "S2", lostPut, func(t *tale) { t.Attempts[2].Payload = "q" }},
	{"a put that is lost is read again", "S8", lostPut,
		func(t *tale) { t.Ops[4].Answer.Payload, t.Ops[4].Answer.Generation = "q", 2 }},
	{"a put is read that was not made yet", "S8", lostPut, func(t *tale) { t.Ops[2].Answer.Payload = "z" }},
	{"a put is there that is lost", "S17", lostPut, func(t *tale) { t.Final.Jobs[0].Payload = "q" }},
	{"a put is lost that was made before", "S3", lostPut,
		func(t *tale) { t.Ops[1].Invoke, t.Ops[1].Return = sec(18), sec(18.1) }},
	{"a put is lost that was made after", "S3", lostPut, func(t *tale) {
		t.Ops[1].Invoke, t.Ops[1].Return = sec(23), sec(23.1)
		t.Ops = t.Ops[:2]
		t.Attempts[1].Payload = "p"
	}},
	{"a put is lost, and what was before does not run again", "S3", lostPut, func(t *tale) { t.drop("a@40") }},
	{"a put is lost, and what was before runs late", "L1", lostPut, func(t *tale) { t.moved(3, 43) }},
	{"a job is gone that was there before", "S3", lostPut, func(t *tale) { t.Final.Jobs = nil }},
	{"a delete is lost that was made before", "S3", lostDelete,
		func(t *tale) { t.Ops[1].Invoke, t.Ops[1].Return = sec(18), sec(18.1) }},
	{"a pause that is lost holds", "S3", lostPause, func(t *tale) { t.Final.Jobs[0].Paused = true }},
	{"half a batch is there", "S11", keptBatch, func(t *tale) {
		t.Final.Jobs = t.Final.Jobs[:2]
		t.drop("b@31")
		t.drop("b@41")
		t.drop("b@51")
	}},
	{"half a batch was lost", "S11", lostBatch, func(t *tale) { t.is("a").Payload = "pa" }},
	{"half a batch is there, as its run shows", "S11", lostBatch,
		func(t *tale) { t.attempt("a", 31, 31.1, 1).Payload = "pa" }},
	{"the first time in doubt is passed over", "S12", lostEnd, func(t *tale) {
		t.Attempts[2].RunID, t.Attempts[2].Scheduled, t.Results[2].RunID = "a@20.5", sec(20.5), "a@20.5"
		r := &t.Final.Runs[0]
		r.Scheduled, r.From, r.Skipped = sec(19.5), sec(19.5), 1
	}},
	{"passed over, and the end before it is kept", "S12", lostNext, asIfKept},
	{"passed over for a trigger that is lost", "S12", lostNextAnd(func(t *tale) {
		t.op(Op{Kind: Skip, Job: "a", RunID: "a@20.5"}, 20.1, 20.2)
	}), func(t *tale) { t.Ops[1].Kind, t.Ops[1].RunID, t.Ops[1].Answer.RunID = Trigger, "", "x" }},
	{"passed over, and the success before it is kept", "S12", lostNextAnd(afterB),
		func(t *tale) { t.Faults[0].From = sec(20.4) }},
	{"a time was passed over, and nothing was lost", "S12", lostEnd,
		func(t *tale) { t.Faults[0].Back = time.Time{} }},
	{"a record of the history that was left", "S17", wentBack,
		func(t *tale) { t.ended("a", "succeeded", 20, 20.2) }},
	{"granted as if it were known", "S11", lostGrant,
		func(t *tale) { t.Writes[len(t.Writes)-1].From = "granted" }},
	{"a write under a term of the history that was left", "S7", lostGrant, func(t *tale) {
		w := &t.Writes[len(t.Writes)-1]
		w.Epoch, w.Node, w.At = 2, "y", sec(46.2)
	}},
	{"a limit that is lost is in force for long", "S9", lostLimit, func(t *tale) {
		for i := range 2 {
			t.Attempts[i].At = sec(14.5 + float64(i))
		}
	}},
}

func TestWhatTheStoreHasLost(t *testing.T) {
	t.Parallel()
	for _, c := range lapseCases {
		t.Run(c.name, c.test)
	}
}
