package checker

import (
	"slices"
	"testing"
	"time"
)

// streamed is a history of a job of Dapr that was put again, from the start: each of its runs fails once and is tried again at
// its virtual time, and the stream that had the first attempt of one ended.
func streamed() *tale {
	t := newTale()
	t.Constants.Kept = 5 * time.Second
	retries := 2
	job := Job{Schedule: "@every 10s", Payload: "p", Queue: DaprQueue + "app/a", Misfire: "all", CatchUpLimit: 10_000,
		Literal: true, Policy: Policy{Kind: "constant", Interval: 2 * time.Second, MaxRetries: &retries, OnExhausted: "drop"}}
	old := job
	old.Payload = "old"
	t.put("j", old, 0, 3)
	t.Ops[0].Replace = true
	a := t.attempt("j", 3, 3.001, 1)
	a.RunID, a.Payload, a.UID, a.Token = "old", "old", "uj", "old"
	t.said(Success, 3.1)
	t.put("j", job, 5, 10)
	t.Ops[1].Replace, t.Ops[1].Answer.UID = true, "new"
	for s := 10.0; s < 60; s += 10 {
		if s == 30 {
			t.streamed(s, s+0.001, 1, "s0")
			t.said(LostWorker, s+0.5)
			t.streamed(s, s+0.6, 1, "s1")
		} else {
			t.streamed(s, s+0.001, 1, "s0")
		}
		t.said(Failure, s+1)
		t.streamed(s, s+2.001, 2, "s0")
		t.said(Success, s+2.1)
		t.ended("j", "succeeded", s, s+2.2)
	}
	f := t.is("j")
	f.UID = "new"
	return t
}

// streamed is an attempt of the job that was put again, from the start.
func (t *tale) streamed(scheduled, at float64, number int, worker string) *Attempt {
	a := t.attempt("j", scheduled, at, number)
	a.UID, a.Worker, a.Node = "new", worker, "n"
	return a
}

// find is the attempt that came at a moment.
func (t *tale) find(at float64) *Attempt {
	i := slices.IndexFunc(t.Attempts, func(a Attempt) bool { return a.At.Equal(sec(at)) })
	return &t.Attempts[i]
}

// without takes an attempt and what was said of it after that out of the history.
func (t *tale) without(at float64) {
	a := *t.find(at)
	t.Attempts = slices.DeleteFunc(t.Attempts, func(x Attempt) bool { return x.At.Equal(a.At) })
	t.Results = slices.DeleteFunc(t.Results, func(r Result) bool {
		return r.Token == a.Token && r.Sent.After(a.At) && r.Sent.Before(a.At.Add(time.Second))
	})
}

// TestDapr: each rule about jobs of Dapr has a lie that breaks it, and each excuse a history that has it.
func TestDapr(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *tale)
		breaks string // an invariant; "" = none
	}{
		"in order": {func(*tale) {}, ""},
		"the old job goes on": {func(h *tale) {
			a := h.streamed(7, 7.1, 1, "s0")
			a.UID, a.RunID, a.Token, a.Payload = "uj", "older", "older", "old"
		}, "S2"},
		"the old job goes on while it is replaced": {func(h *tale) { h.oldAgain(5.005) }, ""},
		"the old job goes on when it is replaced":  {func(h *tale) { h.oldAgain(5.2) }, "S2"},
		"the old job goes on, and nobody knows whether it is replaced": {func(h *tale) {
			h.oldAgain(5.2)
			h.Ops[1].Outcome, h.Ops[1].Answer = Info, Answer{}
		}, ""},
		"the old job goes on after what nobody knew was seen": {func(h *tale) {
			h.oldAgain(10.5)
			h.Ops[1].Outcome, h.Ops[1].Answer = Info, Answer{}
		}, "S2"},
		"a job that nobody put":               {func(h *tale) { h.find(10.001).UID = "other" }, "S2"},
		"again, and the stream lasted":        {func(h *tale) { h.Results[slices.IndexFunc(h.Results, isLost)].Kind = Progress }, "S10"},
		"the end of a stream uses an attempt": {func(h *tale) { h.find(30.6).Number = 2; h.find(32.001).Number = 3 }, "S10"},
		"a retry, and nobody said it failed": {func(h *tale) {
			h.Results = slices.DeleteFunc(h.Results, func(r Result) bool { return r.RunID == h.find(10.001).RunID && r.Kind == Failure })
		}, "S10"},
		"before its virtual time":      {func(h *tale) { h.find(12.001).At = sec(11.5) }, "I11"},
		"a failure is not tried again": {func(h *tale) { h.without(12.001); h.Final.Runs = slices.Delete(h.Final.Runs, 0, 1) }, "L3"},
		"a failure is dropped too soon": {func(h *tale) {
			h.without(12.001)
			h.Final.Runs[0].Status, h.Final.Runs[0].Attempt = "failed", 1
		}, "L3"},
		"a retry is late": {func(h *tale) { h.find(12.001).At = sec(14) }, "L1"},
		"a retry is late, and nobody watched": {func(h *tale) {
			h.find(12.001).At = sec(14)
			r := &h.Results[slices.IndexFunc(h.Results, func(r Result) bool { return r.Sent.Equal(sec(12.1)) })]
			r.Sent, r.Told = sec(14.1), sec(14.2)
			h.Faults = append(h.Faults, Fault{Kind: Unserved, Targets: []string{"n/dapr:app/a"}, From: sec(12), To: sec(13.5)})
		}, ""},
		"a retry is late, and nobody watched for another queue": {func(h *tale) {
			h.find(12.001).At = sec(14)
			h.Faults = append(h.Faults, Fault{Kind: Unserved, Targets: []string{"n/dapr:app/b"}, From: sec(12), To: sec(13.5)})
		}, "L1"},
		"what a stream gave back is late":      {func(h *tale) { h.find(30.6).At = sec(31.9) }, "L1"},
		"what a stream gave back is forgotten": {func(h *tale) { h.without(32.001); h.without(30.6); h.Final.Runs = slices.Delete(h.Final.Runs, 2, 3) }, "L3"},
		"a run is skipped": {func(h *tale) {
			h.without(12.001)
			h.without(10.001)
			h.Final.Runs[0].Status, h.Final.Runs[0].Attempt = "cancelled", 0
		}, "S3"},
		"the history denies an attempt": {func(h *tale) { h.Final.Runs[0].Attempt = 1 }, "S12"},
		"an attempt whose stream ended does not count": {func(h *tale) {
			h.oldAgain(5.005)
			r := h.ended("j", "cancelled", 3, 5.005)
			r.RunID, r.Reason, r.Attempt = "old", "replaced", 0
		}, ""},
		"an attempt of an owner that has lost the partition": {func(h *tale) { h.handedOver(false) }, "S6"},
		"an attempt that stayed with its stream":             {func(h *tale) { h.handedOver(true) }, ""},
		"a limit holds":                                      {func(h *tale) { h.limit(1) }, ""},
		"a limit is broken": {func(h *tale) {
			h.limit(1)
			h.streamed(20, 20.5, 1, "s1").RunID = "beside"
		}, "S9"},
		"a limit is broken at another node": {func(h *tale) {
			h.limit(1)
			a := h.beside()
			a.Node = "m"
		}, ""},
		"a limit is broken over all nodes": {func(h *tale) {
			h.Constants.OneGate = true
			h.limit(1)
			a := h.beside()
			a.Node = "m"
		}, "S9"},
		"a limit that nobody names any more": {func(h *tale) {
			h.limit(1)
			h.Gates[0].To = sec(15)
			h.beside()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := streamed()
			c.change(h)
			v := Check(h.History, Spec{})
			broken := slices.ContainsFunc(v.Violations, func(x Violation) bool { return x.Invariant == c.breaks })
			if c.breaks == "" && v.Result != Passed || c.breaks != "" && !broken {
				t.Errorf("want %q broken: %v", c.breaks, v)
			}
		})
	}
}

// oldAgain has the stream of the old job's run end at 4.9 s, and the run come again.
func (t *tale) oldAgain(at float64) {
	for i := range t.Results {
		if r := &t.Results[i]; r.RunID == "old" {
			r.Kind, r.Sent, r.Told, r.Verdict = LostWorker, sec(4.9), time.Time{}, None
		}
	}
	a := t.streamed(3, at, 1, "s1")
	a.RunID, a.Payload, a.UID, a.Token = "old", "old", "uj", "old"
}

func isLost(r Result) bool { return r.Kind == LostWorker }

// handedOver has the partition change hands before the last attempt, which came under the term of before.
func (t *tale) handedOver(inOrder bool) {
	t.Claims = append(t.Claims, Claim{Epoch: 1, Node: "n", Invoke: sec(0), Return: sec(0)},
		Claim{Epoch: 2, Node: "m", Invoke: sec(45), Return: sec(45.1)})
	if inOrder {
		t.Releases = append(t.Releases, Release{Epoch: 1, Node: "n", At: sec(44.9)})
	}
	t.Attempts[len(t.Attempts)-1].Epoch = 1
}

// limit is one of the job's queue, named all the time.
func (t *tale) limit(most int) {
	t.Gates = append(t.Gates, Gate{Namespace: "n", Queue: DaprQueue + "app/a", Most: most, Node: "n", From: sec(0),
		To: sec(60)})
}

// beside is a run of another job of the queue, while one of the first is with a sidecar.
func (t *tale) beside() *Attempt {
	t.put("k", Job{Payload: "q", Queue: DaprQueue + "app/a", Due: sec(20.5)}, 1, 20.5)
	a := t.attempt("k", 20.5, 20.501, 1)
	a.UID, a.Payload, a.Node = "uk", "q", "n"
	t.said(Success, 20.7)
	t.ended("k", "succeeded", 20.5, 20.8)
	return a
}

// TestFaultsThatReachALimit: what breaks a limit of sidecars is excused by a fault of those that take part in
// it, as long as that lasts, and by no other.
func TestFaultsThatReachALimit(t *testing.T) {
	fault := func(from, to float64, targets ...string) func(h *tale) {
		return func(h *tale) {
			h.Faults = append(h.Faults, Fault{Kind: "pause", Targets: targets, From: sec(from), To: sec(to)})
		}
	}
	for name, c := range map[string]struct {
		change func(h *tale)
		broken bool
	}{
		"none":                         {func(*tale) {}, true},
		"of another node":              {fault(20.4, 20.8, "bystander"), true},
		"of a job's owner":             {fault(20.4, 20.8, "n"), false},
		"of the other job's owner":     {fault(20.4, 20.8, "m"), false},
		"of the owner of the limit":    {fault(20.4, 20.8, "home"), false},
		"of a node that has a stream":  {fault(20.4, 20.8, "streams"), false},
		"of the network":               {fault(20.4, 20.8, Network), false},
		"of the store":                 {fault(20.4, 20.8), false},
		"of a sidecar":                 {func(h *tale) { fault(20.4, 20.8, "s0")(h); h.Faults[0].Kind = "worker hung" }, true},
		"of a job's owner, before":     {fault(20.1, 20.4, "n"), true},
		"of the limit's owner, before": {fault(20.1, 20.4, "home"), true},
		"before a result that was not taken": {func(h *tale) {
			fault(20.1, 20.4, "n")(h)
			h.resultAt(21).Verdict = Stale
		}, false},
		"of one that was the owner": {func(h *tale) {
			fault(10.5, 20.8, "bystander")(h)
			h.Claims[0].Node = "bystander"
			h.Claims = append(h.Claims, Claim{Epoch: 2, Node: "n", Invoke: sec(15), Return: sec(15.1)})
			for i := range h.Attempts {
				if a := &h.Attempts[i]; a.Job == "j" && a.At.After(sec(15)) {
					a.Epoch = 2
				}
			}
		}, true},
		"of whoever is to be the owner": {func(h *tale) {
			fault(10.5, 20.8, "bystander")(h)
			h.Claims[2].Node = "bystander"
			h.Claims = append(h.Claims, Claim{Partition: 2, Epoch: 2, Node: "home", Invoke: sec(20.7), Return: sec(20.75)})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := streamed()
			h.Constants.OneGate = true
			h.limit(1)
			h.Gates[0].Home = 2
			a := h.beside()
			a.Partition, a.Node = 1, "streams"
			h.Homes = map[string]int{"n/j": 0, "n/k": 1}
			for p, node := range []string{"n", "m", "home", "bystander"} {
				h.Claims = append(h.Claims, Claim{Partition: p, Epoch: 1, Node: node, Invoke: sec(0), Return: sec(0)})
			}
			for i := range h.Attempts {
				h.Attempts[i].Epoch = 1
			}
			c.change(h)
			v := Check(h.History, Spec{})
			if slices.ContainsFunc(v.Violations, func(x Violation) bool { return x.Invariant == "S9" }) != c.broken {
				t.Errorf("want S9 broken: %v: %v", c.broken, v)
			}
		})
	}
}

// resultAt is what was said at a moment.
func (t *tale) resultAt(at float64) *Result {
	i := slices.IndexFunc(t.Results, func(r Result) bool { return r.Sent.Equal(sec(at)) })
	return &t.Results[i]
}
