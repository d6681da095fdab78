package checker

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// corruption is a history that is right, and the smallest change of it that breaks an invariant.
type corruption struct {
	name      string
	invariant string
	right     func() *tale
	wrong     func(*tale)
}

// drop removes the attempts and results of a run.
func (t *tale) drop(id string) {
	t.Attempts = slices.DeleteFunc(t.Attempts, func(a Attempt) bool { return a.RunID == id })
	t.Results = slices.DeleteFunc(t.Results, func(r Result) bool { return r.RunID == id })
}

func steadyA() *tale { return steady("a") }

// retried is a one-shot that failed once and then succeeded.
func retried() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p", Policy: Policy{Kind: "constant", Interval: 2 * time.Second}}, 0, 5)
	t.attempt("a", 5, 5.1, 1)
	t.said(Failure, 5.5)
	t.attempt("a", 5, 7.6, 2)
	t.said(Success, 7.9)
	return t
}

// toldTwice is retried, where two workers have had the first attempt, and only the second has heard that its
// word counts.
func toldTwice() *tale {
	t := retried()
	t.Results[0].Sent, t.Results[0].Told = sec(6), sec(6.01)
	first := t.Results[0]
	first.Sent, first.Told, first.Verdict = sec(5.5), time.Time{}, None
	t.Results = slices.Insert(t.Results, 0, first)
	return t
}

// lost is a one-shot whose first attempt is never heard of again, and whose second succeeds when the lease is
// over.
func lost() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p"}, 0, 5)
	t.attempt("a", 5, 5.1, 1)
	t.attempt("a", 5, 9.2, 2)
	t.said(Success, 9.5)
	return t
}

// underWay is lost, where the first attempt was some time on its way to the worker: its lease counts from
// when it was handed out.
func underWay() *tale {
	t := lost()
	t.Constants.Apply = 100 * time.Millisecond
	t.Attempts[0].Started, t.Attempts[1].At = sec(5.02), sec(9.05)
	return t
}

// stopped is lost, where the first attempt came to a worker that was stopped, and the second went elsewhere.
func stopped() *tale {
	t := lost()
	t.put("b", Job{Payload: "p"}, 0, 12)
	t.ran("b", 12, 12.1)
	t.Faults = []Fault{{Kind: WorkerStopped, Targets: []string{"stopped"}, From: sec(5.05), To: sec(20)}}
	for i := range t.Attempts {
		t.Attempts[i].Worker = "idle"
	}
	t.Attempts[0].Worker = "stopped"
	return t
}

// paused is a job that is paused from 12 to 45 s, after which 2 times are recorded as paused.
func paused() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
	t.ran("a", 10, 10.1)
	t.op(Op{Kind: Pause, Job: "a"}, 12, 12.1)
	t.op(Op{Kind: Resume, Job: "a"}, 45, 45.1)
	t.skipped("a", "paused", 20, 40, 3, 45.05)
	t.ran("a", 50, 50.1)
	t.is("a")
	return t
}

// down is a job of which nobody could run three times, and the newest was made up for.
func down(misfire string) func() *tale {
	return func() *tale {
		t := newTale()
		t.put("a", Job{Schedule: "@every 5s", Payload: "p", Misfire: misfire}, 0, 5)
		t.Faults = []Fault{{Kind: "kill", From: sec(6), To: sec(22)}}
		t.ran("a", 5, 5.1)
		if misfire == "all" {
			for s := 10.0; s <= 20; s += 5 {
				t.ran("a", s, 22+s/20)
			}
		} else {
			t.skipped("a", "misfire", 10, 15, 2, 22.3)
			t.ran("a", 20, 22.4)
		}
		t.ranEach("a", 25, 5)
		t.is("a")
		return t
	}
}

// chain is b after a: each success of a releases one run of b.
func chain() *tale {
	t := steady("a")
	t.put("b", Job{Schedule: "@every 10s", Payload: "p", After: []string{"a"}}, 0, 10)
	for s := 10.0; s < 60; s += 10 {
		t.ran("b", s, s+0.5)
	}
	t.is("b")
	return t
}

// filled is a backfill of three times.
func filled() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@daily", Payload: "p"}, 0, (24 * time.Hour).Seconds())
	o := t.op(Op{Kind: Backfill, Job: "a", From: start.AddDate(0, 0, -3), To: start.AddDate(0, 0, -1),
		Answer: Answer{BackfillID: "f"}}, 5, 5.1)
	for y := 3; y >= 1; y-- {
		a := t.attempt("a", float64(-y), 9-float64(y), 1)
		a.Cause, a.Scheduled, a.Backfill = CauseBackfill, start.AddDate(0, 0, -y), o.Answer.BackfillID
		t.said(Success, 9.1-float64(y))
	}
	t.is("a")
	return t
}

// owners are two owners of a partition, one after the other.
func owners() *tale {
	t := steadyA()
	t.Claims = []Claim{{Partition: 1, Epoch: 1, Node: "x", Invoke: sec(0), Return: sec(0.1)},
		{Partition: 1, Epoch: 2, Node: "y", Invoke: sec(20), Return: sec(20.1)}}
	t.Writes = []Write{
		{Partition: 1, Epoch: 1, Node: "x", RunID: "a@10", To: "granted", Attempt: 1},
		{Partition: 1, Epoch: 1, Node: "x", RunID: "a@10", From: "granted", To: "done"},
		{Partition: 1, Epoch: 1, Node: "x", RunID: "a@20", Refused: true},
		{Partition: 1, Epoch: 2, Node: "y", RunID: "a@20", To: "granted", Attempt: 1},
	}
	return t
}

// tokens are two jobs with one concurrency key, of which one may run at a time.
func tokens() *tale {
	t := newTale()
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 1}}, 0, 0.01)
	for i, name := range []string{"a", "b"} {
		t.put(name, Job{Payload: "p", ConcurrencyKey: "k"}, 1, 10)
		t.attempt(name, 10, 10.1+float64(i)*2, 1)
		t.said(Success, 11.5+float64(i)*2)
	}
	return t
}

// batch is two jobs put at once, with an unknown outcome.
func batch() *tale {
	t := newTale()
	for _, name := range []string{"a", "b"} {
		t.op(Op{Kind: BatchPut, Job: name, Batch: "1", Outcome: Info,
			Spec: &Job{Schedule: "@every 20s", Payload: "p", KeepRuns: 1000}}, 1, 2)
		t.ranEach(name, 21.5, 20)
		t.is(name)
	}
	return t
}

// edited is a job that was put twice and read in between.
func edited() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
	t.ran("a", 10, 10.1)
	t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 1, UID: "ua", Payload: "p"}}, 11, 11.1)
	t.op(Op{Kind: Put, Job: "a", Spec: &Job{Schedule: "@every 20s", Payload: "q", KeepRuns: 1000},
		Answer: Answer{Generation: 2, UID: "ua", NextRun: sec(32), Changed: true}}, 12, 12.1)
	t.op(Op{Kind: Get, Job: "a", Answer: Answer{Found: true, Generation: 2, UID: "ua", Payload: "q"}}, 13, 13.1)
	for _, s := range []float64{32, 52} {
		t.attempt("a", s, s+0.1, 1).Payload = "q"
		t.said(Success, s+0.2)
	}
	f := t.is("a")
	f.Generation, f.Payload = 2, "q"
	return t
}

// skipping is a job under overlap skip, one of whose times came while the run before was going on.
func skipping() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Overlap: "skip", Lease: time.Minute}, 0, 10)
	t.attempt("a", 10, 10.1, 1)
	t.said(Success, 22)
	t.skipped("a", "overlap", 20, 20, 1, 22.01)
	t.ranEach("a", 30, 10)
	t.is("a")
	return t
}

// long is a job one of whose runs takes longer than its times are apart.
func long() *tale {
	t := newTale()
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Lease: time.Minute}, 0, 10)
	t.attempt("a", 10, 10.1, 1)
	t.said(Success, 31)
	t.skipped("a", "misfire", 20, 20, 1, 31.01)
	for s := 30.0; s < 60; s += 10 {
		t.ran("a", s, max(s+0.1, 31.1))
	}
	t.is("a")
	return t
}

var corruptions = []corruption{
	{"begun before it is due", "S1", steadyA, func(t *tale) { t.Attempts[1].At = sec(19.999) }},
	{"retried before it is due", "S1", retried, func(t *tale) { t.Attempts[1].Due = sec(7.7) }},
	{"a time that is none", "S2", steadyA, func(t *tale) { t.ran("a", 23, 23.1) }},
	{"a job nobody put", "S2", steadyA, func(t *tale) { t.ran("ghost", 23, 23.1) }},
	{"an old payload", "S2", edited, func(t *tale) { t.Attempts[1].Payload = "p" }},
	{"an old schedule", "S2", edited, func(t *tale) { t.attempt("a", 20, 20.1, 1).Payload = "q" }},
	{"fired while paused", "S2", paused, func(t *tale) { t.ran("a", 30, 30.1) }},
	{"ran after the delete", "S2", func() *tale {
		t := newTale()
		t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
		t.ran("a", 10, 10.1)
		t.op(Op{Kind: Delete, Job: "a"}, 15, 15.1)
		return t
	}, func(t *tale) { t.ran("a", 20, 20.1) }},
	{"triggered by nobody", "S2", steadyA, func(t *tale) { t.attempt("a", 23, 23.1, 1).Cause = CauseTrigger }},
	{"counted backwards", "S2", retried, func(t *tale) { t.Attempts[0].Number = 3 }},
	{"counted twice", "S2", retried, func(t *tale) { t.Attempts[1].Number = 1 }},
	{"a run that is missing", "S3", steadyA, func(t *tale) { t.drop("a@30") }},
	{"a one-shot that is missing", "S3", retried, func(t *tale) { t.drop("a@5") }},
	{"a lost put", "S3", edited, func(t *tale) { t.Final.Jobs[0].Payload = "p" }},
	{"a lost generation", "S3", edited, func(t *tale) { t.Final.Jobs[0].Generation = 1 }},
	{"a lost job", "S3", steadyA, func(t *tale) { t.Final.Jobs = nil }},
	{"a lost delete", "S3", func() *tale {
		t := newTale()
		t.put("a", Job{Schedule: "@every 10s", Payload: "p"}, 0, 10)
		t.op(Op{Kind: Delete, Job: "a"}, 5, 5.1)
		t.ran("b", 1, 1)
		t.put("b", Job{Payload: "p"}, 0, 1)
		return t
	}, func(t *tale) { t.is("a") }},
	{"a lost pause", "S3", func() *tale {
		t := steadyA()
		t.op(Op{Kind: Pause, Job: "a"}, 55, 55.1)
		t.Final.Jobs[0].Paused = true
		return t
	}, func(t *tale) { t.Final.Jobs[0].Paused = false }},
	{"a lost trigger", "S3", func() *tale {
		t := steadyA()
		t.op(Op{Kind: Trigger, Job: "a", Answer: Answer{RunID: "a@12"}}, 12, 12.1)
		a := t.attempt("a", 12, 12.1, 1)
		a.Cause = CauseTrigger
		t.said(Success, 12.2)
		return t
	}, func(t *tale) { t.drop("a@12") }},
	{"a cancelled run", "S3", func() *tale {
		t := retried()
		t.op(Op{Kind: Cancel, Job: "a", RunID: "a@5"}, 8, 8.1)
		return t
	}, func(t *tale) { t.Ops[1].Invoke, t.Ops[1].Return = sec(6), sec(6.1) }},
	{"a run after it was done", "S4", retried, func(t *tale) { t.attempt("a", 5, 8.5, 3) }},
	{"two attempts succeed", "S5", lost, func(t *tale) {
		r := t.Results[0]
		r.Token, r.Number = t.Attempts[0].Token, 1
		t.Results = append(t.Results, r)
	}},
	{"a stale result counts", "S5", retried,
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(7.7), sec(7.8) }},
	{"a fenced result counts", "S5", edited,
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(12.5), sec(12.6) }},
	{"a made-up token counts", "S5", func() *tale {
		t := steadyA()
		t.said(Fabricated, 50.15).Token = "made up"
		return t
	}, func(t *tale) { t.Results[5].Verdict = Acked }},
	{"two answers to one result", "S5", func() *tale {
		t := steadyA()
		t.said(Success, 50.3)
		return t
	}, func(t *tale) { t.Results[5].Verdict = Stale }},
	{"an epoch with two owners", "S6", owners, func(t *tale) { t.Claims[1].Epoch = 1 }},
	{"an epoch that goes down", "S6", owners, func(t *tale) { t.Claims[0].Epoch = 3; t.Writes = nil }},
	{"a write of an old epoch", "S7", owners, func(t *tale) {
		t.Writes[2].Refused = false
		t.Writes[2], t.Writes[3] = t.Writes[3], t.Writes[2]
	}},
	{"a write of somebody else", "S7", owners, func(t *tale) { t.Writes[3].Node = "x" }},
	{"a read of what was replaced", "S8", edited, func(t *tale) { t.Ops[3].Answer.Payload = "p" }},
	{"a generation that goes down", "S8", edited, func(t *tale) { t.Ops[3].Answer.Generation = 1 }},
	{"a read before the put", "S8", edited,
		func(t *tale) { t.Ops[1].Answer.Payload, t.Ops[1].Answer.Generation = "q", 2 }},
	{"a list of what was replaced", "S8", func() *tale {
		t := edited()
		t.op(Op{Kind: List, Answer: Answer{Listed: []Listed{{Namespace: "n", Job: "a", Payload: "q"}}}}, 20, 20.1)
		return t
	}, func(t *tale) { t.Ops[4].Answer.Listed[0].Payload = "p" }},
	{"serial runs overlap", "S9", func() *tale { return held("a", Job{Lease: time.Minute}, 50, 10, 3) },
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(20.5), sec(20.6) }},
	{"over the limit", "S9", tokens, func(t *tale) { t.Attempts[1].At = sec(11) }},
	{"a replaced run succeeds", "S9", func() *tale {
		t := held("a", Job{Lease: time.Minute, Overlap: "replace"}, 50, 10, 3)
		return t
	}, func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(22), sec(22.1) }},
	{"attempted again for nothing", "S10", lost, func(t *tale) { t.Attempts[1].At = sec(8) }},
	{"within the lease, which began on the way", "S10", underWay,
		func(t *tale) { t.Attempts[1].At = sec(9.01) }},
	{"within the lease, and it came at once", "S10", underWay,
		func(t *tale) { t.Attempts[0].Started = t.Attempts[0].At }},
	{"within the lease, and nothing takes that long", "S10", underWay,
		func(t *tale) { t.Attempts[0].Started = sec(3.9) }},
	{"within the lease, where nothing takes time", "S10", underWay, func(t *tale) { t.Constants.Apply = 0 }},
	{"one failure, two attempts", "S10", retried, func(t *tale) {
		t.Attempts[1].Token, t.Attempts[1].Number = t.Attempts[0].Token, 1
		t.attempt("a", 5, 7.8, 2)
	}},
	{"a write that skips a state", "S11", owners,
		func(t *tale) { t.Writes[0].To, t.Writes[1].From = "pending", "pending" }},
	{"half a batch", "S11", batch, func(t *tale) {
		t.Final.Jobs = t.Final.Jobs[:1]
		t.Attempts = slices.DeleteFunc(t.Attempts, func(a Attempt) bool { return a.Job == "b" })
	}},
	{"not paused", "S12", paused, func(t *tale) {
		t.Final.Runs[0].From, t.Final.Runs[0].Scheduled, t.Final.Runs[0].Finished = sec(10), sec(10), sec(11)
	}},
	{"nothing was going on", "S12", skipping,
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(12), sec(12.1) }},
	{"the newest was left out", "S12", down("latest"),
		func(t *tale) { t.drop("a@20"); t.Final.Runs[0].Scheduled = sec(20) }},
	{"an older one ran", "S12", long, func(t *tale) { t.Final.Runs = nil; t.ran("a", 20, 31.05) }},
	{"all left one out", "S12", down("all"),
		func(t *tale) { t.drop("a@10"); t.skipped("a", "misfire", 10, 10, 1, 22.3) }},
	{"no reason at all", "S12", paused, func(t *tale) { t.Final.Runs[0].Reason = "" }},
	{"it ran, and did not", "S12", paused, func(t *tale) { t.Final.Runs[0].From = sec(10) }},
	{"a count that is wrong", "S12", paused, func(t *tale) { t.Final.Runs[0].Skipped = 2 }},
	{"a stretch that ends before it begins", "S12", paused, func(t *tale) { t.Final.Runs[0].From = sec(50) }},
	{"cancelled by nobody", "S12", steadyA, func(t *tale) { t.ended("a", "cancelled", 30, 30.2) }},
	{"a success nobody reported", "S12", retried,
		func(t *tale) { t.Results[1].Kind = Failure; t.ended("a", "succeeded", 5, 8) }},
	{"before the one it comes after", "S12", chain,
		func(t *tale) { t.drop("a@30"); t.skipped("a", "misfire", 30, 30, 1, 40) }},
	{"a time that no backfill has", "S12", filled,
		func(t *tale) { t.Attempts[0].Scheduled = start.AddDate(0, 0, -4) }},
	{"a backfill runs a time twice", "S12", filled,
		func(t *tale) { t.Attempts[0].Scheduled = t.Attempts[1].Scheduled }},
	{"a backfill leaves a time out", "S12", filled, func(t *tale) { t.drop("a@-2") }},
	{"serial backfill runs overlap", "S9", filled,
		func(t *tale) { t.Results[0].Sent, t.Results[0].Told = sec(7.3), sec(7.4) }},
	{"a run of another tenant", "S13", steadyA, func(t *tale) { t.Attempts[0].Tenant = "m" }},
	{"a list of another tenant", "S13", func() *tale {
		t := steadyA()
		t.op(Op{Kind: List, Answer: Answer{Namespaces: []string{"n"}}}, 20, 20.1)
		return t
	}, func(t *tale) { t.Ops[1].Answer.Namespaces[0] = "m" }},
	{"a silent worker gets its run back", "S15", stopped, func(t *tale) { t.Attempts[1].Worker = "stopped" }},
	{"a silent worker gets another run", "S15", stopped, func(t *tale) { t.Attempts[2].Worker = "stopped" }},
	{"a lost attempt is begun after all", "S15", stopped, func(t *tale) {
		t.Begins = []Begin{{RunID: t.Attempts[0].RunID, Number: 1, Worker: "stopped", At: sec(20)}}
	}},
	{"something is left", "S14", steadyA, func(t *tale) { t.Final.Left = []string{"a record"} }},
	{"late without a fault", "L1", steadyA,
		func(t *tale) { t.Attempts[2].At, t.Results[2].Sent, t.Results[2].Told = sec(32), sec(32.1), sec(32.2) }},
	{"late long after a fault", "L1", func() *tale {
		t := steadyA()
		t.Faults = []Fault{{Kind: "kill", From: sec(18), To: sec(25)}}
		t.Attempts[1].At, t.Results[1].Sent, t.Results[1].Told = sec(29), sec(29.1), sec(29.2)
		return t
	}, func(t *tale) { t.Faults[0].To = sec(21) }},
	{"a minor fault excuses little", "L1", func() *tale {
		t := steadyA()
		t.Faults = []Fault{{Kind: "kill", From: sec(18), To: sec(30)}}
		t.Attempts[1].At, t.Results[1].Sent, t.Results[1].Told = sec(29), sec(29.1), sec(29.2)
		return t
	}, func(t *tale) { t.Faults[0].Minor = true }},
	{"a partition with two owners", "L2", func() *tale {
		t := steadyA()
		t.Final.Owners = []Owner{{"x", 1, "y", 2}, {"y", 1, "y", 2}}
		return t
	}, func(t *tale) { t.Final.Owners[0].Epoch = 1 }},
	{"overdue at the end", "L2", steadyA, func(t *tale) { t.Final.Overdue = 1 }},
	{"running for ever", "L3", func() *tale {
		t := lost()
		t.Results = nil
		t.Attempts[1].At = sec(50)
		t.ended("a", "running", 5, 0).Finished = time.Time{}
		return t
	}, func(t *tale) { t.Attempts[1].At = sec(20) }},
	{"retried too soon", "I11", retried, func(t *tale) { t.Attempts[1].At = sec(7.4) }},
	{"retried too soon after what counted", "I11", toldTwice, func(t *tale) { t.Results[0].Verdict = Stale }},
	{"retried too often", "I11", retried, func(t *tale) { one := 0; t.Ops[0].Spec.Policy.MaxRetries = &one }},
	{"retried for good", "I11", retried, func(t *tale) { t.Results[0].Kind = Permanent }},
	{"retried before it was asked to", "I11", func() *tale {
		t := retried()
		t.Results[0].Kind, t.Results[0].After = RetryAfter, time.Second
		return t
	}, func(t *tale) { t.Results[0].After = 3 * time.Second }},
	{"one run given out as two", "S2", steadyA,
		func(t *tale) { t.Attempts[3].Token, t.Results[3].Token = t.Attempts[2].Token, t.Results[2].Token }},
	{"a first run that is no time", "S2", filled, func(t *tale) { t.Ops[0].Answer.NextRun = sec(100) }},
}

func TestCorruptionIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(corruptions, excused, miscounted) {
		t.Run(c.name, c.test)
	}
}

// test holds the history that is right, and then the one that is not, against the checker.
func (c corruption) test(t *testing.T) {
	t.Parallel()
	right := c.right()
	if v := Check(right.History, Spec{}); v.Result != Passed {
		t.Fatalf("the history that is right:\n%v", v)
	}
	wrong := c.right()
	c.wrong(wrong)
	v := Check(wrong.History, Spec{})
	found := slices.ContainsFunc(v.Violations, func(v Violation) bool { return v.Invariant == c.invariant })
	if v.Result != Failed || !found {
		t.Fatalf("no violation of %s:\n%v", c.invariant, v)
	}
}

// TestEveryInvariantIsTested: a new invariant needs a corruption.
func TestEveryInvariantIsTested(t *testing.T) {
	t.Parallel()
	all := slices.Concat(corruptions, miscounted, lapseCases)
	for invariant := range strings.FieldsSeq("S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S12 S13 S14 S15 S16 S17 L1 L2 L3 I11") {
		if !slices.ContainsFunc(all, func(c corruption) bool { return c.invariant == invariant }) {
			t.Errorf("no corruption breaks %s", invariant)
		}
	}
}
