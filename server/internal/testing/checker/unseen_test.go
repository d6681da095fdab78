package checker

import (
	"testing"
	"time"
)

// died is a one-shot due at 20 s whose first attempt was in the batch that its owner wrote as it died: nobody
// had it, and the second one came when the next owner had waited for the lease of the first, and then for the
// retry.
func died() *tale {
	t := newTale()
	t.put("a", Job{Payload: "p", Lease: 8 * time.Second,
		Policy: Policy{Kind: "constant", Interval: 2 * time.Second}}, 0, 20)
	t.claim(1, 1, "x.1", 0)
	t.claim(1, 2, "x.2", 22)
	t.Faults = []Fault{{Kind: "kill", From: sec(20.05), To: sec(22)}}
	t.Writes = []Write{
		{Partition: 1, Epoch: 1, Node: "x.1", At: sec(19)},
		{Partition: 1, Epoch: 1, Node: "x.1", At: sec(20.2), RunID: "a@20", To: "granted", Attempt: 1},
		{Partition: 1, Epoch: 2, Node: "x.2", At: sec(35), RunID: "a@20", From: "granted",
			To: "pending", Attempt: 1},
		{Partition: 1, Epoch: 2, Node: "x.2", At: sec(37), RunID: "a@20", From: "pending",
			To: "granted", Attempt: 2},
	}
	t.attempt("a", 20, 37.1, 2)
	t.said(Success, 37.2)
	return t
}

// diedBetween is a serial job one of whose runs was so, and the next of which had to wait for it.
func diedBetween() *tale {
	t := died()
	t.Ops[0].Spec.Schedule, t.Ops[0].Spec.Misfire = "@every 10s", "all"
	t.Ops[0].Answer.NextRun = sec(20)
	for s := 30.0; s < 60; s += 10 {
		t.ran("a", s, max(s+0.1, 37.3))
	}
	t.is("a")
	return t
}

// diedBeside is a job whose runs go beside each other.
func diedBeside() *tale {
	t := diedBetween()
	t.Ops[0].Spec.Overlap = "allow"
	t.moved(1, 30.1)
	return t
}

// diedWithAPermit is one whose attempt held the only permit of a key, for which another job had to wait.
func diedWithAPermit() *tale {
	t := died()
	t.Ops[0].Spec.ConcurrencyKey = "k"
	t.op(Op{Kind: PutNamespace, Limits: map[string]int{"k": 1}}, 0, 0.01)
	t.put("b", Job{Payload: "p", ConcurrencyKey: "k"}, 0, 30)
	t.ran("b", 30, 35.1)
	return t
}

// unheardOf are runs that waited for an attempt that nobody had, and the smallest change of each that has no
// excuse.
var unheardOf = []corruption{
	{"its attempt was durable before the kill", "L1", died, func(t *tale) { t.Writes[1].At = sec(20.01) }},
	{"its owner had heard of the write", "L1", died, func(t *tale) {
		t.Writes[0].At = sec(20.3)
		t.Writes[0], t.Writes[1] = t.Writes[1], t.Writes[0]
	}},
	{"its owner claimed the partition again", "L1", died, func(t *tale) {
		t.Claims[1].Node, t.Writes[2].Node, t.Writes[3].Node = "x.1", "x.1", "x.1"
	}},
	{"nothing was wrong with its owner", "L1", died, func(t *tale) { t.Faults[0].Targets = []string{"y"} }},
	{"a worker was killed, and not its owner", "L1", died, func(t *tale) { t.Faults[0].Kind = "worker killed" }},
	{"its owner's clock was wrong", "L1", died, func(t *tale) { t.Faults[0].Skew = time.Second }},
	{"it was another attempt", "L1", died, func(t *tale) { t.Writes[1].Attempt = 2 }},
	{"it was an attempt of another run", "L1", died, func(t *tale) { t.Writes[1].RunID = "a@10" }},
	{"the write was refused", "L1", died, func(t *tale) { t.Writes[1].Refused = true }},
	{"it waited for longer than the lease", "L1", died, func(t *tale) { t.moved(0, 39.1) }},
	{"it waited for the lease, and the timeout was over", "L1", died,
		func(t *tale) { t.Ops[0].Spec.Timeout = 7 * time.Second }},
	{"the next one waited for longer than it", "L1", diedBetween, func(t *tale) { t.moved(1, 41) }},
	{"another run waited, and had not to", "L1", diedBeside, func(t *tale) { t.moved(1, 32) }},
	{"a run beside others waited for longer than the lease", "L1", diedBeside,
		func(t *tale) { t.moved(0, 38.5) }},
	{"its permit had come back", "L1", diedWithAPermit, func(t *tale) { t.moved(1, 38) }},
	{"it held no permit", "L1", diedWithAPermit, func(t *tale) { t.Ops[0].Spec.ConcurrencyKey = "" }},
}

func TestWhatNobodyHadIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, c := range unheardOf {
		t.Run(c.name, c.test)
	}
}
