package checker

import (
	"testing"
	"time"
)

// jitter is job a in partition 1, which x owns, beside y, which owns partition 2; its run of 20 s began at a
// moment of the test's.
func jitter(at float64, faults ...Fault) *tale {
	t := steady("a")
	t.Constants.Handover = 500 * time.Millisecond
	t.Homes = map[string]int{"n/a": 1}
	t.claim(1, 1, "x.1", 0)
	t.claim(2, 1, "y.1", 0)
	t.Faults = faults
	t.moved(1, at)
	return t
}

// claim is that a node became the owner of a partition.
func (t *tale) claim(partition int, epoch uint64, node string, at float64) {
	t.Claims = append(t.Claims, Claim{Partition: partition, Epoch: epoch, Node: node, Invoke: sec(at),
		Return: sec(at)})
}

// released is that a node gave up a partition in order.
func (t *tale) released(partition int, epoch uint64, node string, at float64) {
	t.Releases = append(t.Releases, Release{Partition: partition, Epoch: epoch, Node: node, At: sec(at)})
}

// halted is a run that came late because its owner stood still and another node took over.
func halted() *tale {
	t := jitter(24, Fault{Kind: "pause", Targets: []string{"x"}, From: sec(19), To: sec(30), Minor: true})
	t.claim(1, 2, "y.1", 23.9)
	return t
}

// stalled is a run whose owner stood still, and which another node that was to take it over left alone, until
// a third did.
func stalled() *tale {
	t := jitter(28.5, Fault{Kind: "pause", Targets: []string{"x"}, From: sec(19), To: sec(30), Minor: true},
		Fault{Kind: "pause", Targets: []string{"z"}, From: sec(23), To: sec(30), Minor: true})
	t.claim(1, 2, "y.1", 28.4)
	return t
}

// handed is a run that came late because its partition changed hands in order.
func handed() *tale {
	t := jitter(21.3)
	t.released(1, 1, "x.1", 19.9)
	t.claim(1, 2, "y.1", 20.35)
	return t
}

// twice is a run that was attempted again soon, when its partition had changed hands.
func twice() *tale {
	t := jitter(20.1, Fault{Kind: "leave", Targets: []string{"x"}, From: sec(20.15), To: sec(25)})
	t.Results[1].Sent, t.Results[1].Told, t.Results[1].Kind, t.Results[1].Verdict = sec(20.9), sec(20.91), Success, Stale
	t.released(1, 1, "x.1", 20.2)
	t.claim(1, 2, "y.1", 20.3)
	t.attempt("a", 20, 20.4, 2)
	t.said(Success, 20.5)
	return t
}

// stranded is a run that went on through the node that had handed it out when its partition had changed hands
// in order: its heartbeats did not cross to the next owner, which gave it to another worker when its lease
// was over.
func stranded() *tale {
	t := twice()
	t.Faults = []Fault{{Kind: "cut", Targets: []string{Network}, From: sec(21), To: sec(25)}}
	b := Heartbeat{RunID: t.Attempts[1].RunID, Token: t.Attempts[1].Token}
	for _, at := range []float64{22, 23.5} {
		b.At = sec(at)
		t.Heartbeats = append(t.Heartbeats, b)
	}
	last := len(t.Attempts) - 1
	t.Results[1].Sent, t.Results[1].Told = sec(25.1), sec(25.11)
	t.Attempts[last].At, t.Results[last].Sent, t.Results[last].Told = sec(24.2), sec(24.3), sec(24.31)
	return t
}

// mute is the same, where the node that had handed it out stood still.
func mute() *tale {
	t := stranded()
	t.Faults[0].Kind, t.Faults[0].Targets = "pause", []string{"x"}
	return t
}

// swift is a run that came before its time, by the clock of its owner.
func swift() *tale {
	return jitter(19, Fault{Kind: "clock", Targets: []string{"x"}, From: sec(18), To: sec(22),
		Skew: 1500 * time.Millisecond})
}

// together is a job that was put in a batch, by a node whose clock is ahead.
func together() *tale {
	t := swift()
	t.Ops[0].Kind, t.Ops[0].Batch = BatchPut, "1"
	t.Faults[0].Targets = []string{"y"}
	return t
}

// withheld is a run that waits for a permit, which is kept by another node.
func withheld() *tale {
	t := jitter(24, Fault{Kind: "pause", Targets: []string{"y"}, From: sec(19), To: sec(30), Minor: true})
	t.Ops[0].Spec.ConcurrencyKey = "k"
	return t
}

// unsung is a job that comes after another, whose success is told to it late, as its owner stood still.
func unsung() *tale {
	t := steady("a")
	t.put("b", Job{Payload: "p", After: []string{"a"}}, 0, 5)
	t.ran("b", 5, 16)
	t.Homes = map[string]int{"n/a": 1, "n/b": 2}
	t.claim(1, 1, "x.1", 0)
	t.claim(2, 1, "y.1", 0)
	t.Faults = []Fault{{Kind: "pause", Targets: []string{"x"}, From: sec(10.15), To: sec(15), Minor: true}}
	return t
}

// written is a partition with a write under each of its terms.
func written() *tale {
	t := jitter(20.1)
	t.released(1, 1, "x.1", 34)
	t.claim(1, 2, "y.1", 35)
	t.Writes = []Write{{Partition: 1, Epoch: 1, Node: "x.1", At: sec(33)},
		{Partition: 1, Epoch: 2, Node: "y.1", At: sec(36)}}
	return t
}

// reached are histories of a cluster in which something has an excuse, and the smallest change of each that
// has none.
var reached = []corruption{
	{"another node stood still", "L1", halted, func(t *tale) { t.Faults[0].Targets = []string{"y"} }},
	{"a node of a longer name stood still", "L1", halted,
		func(t *tale) { t.Faults[0].Targets = []string{"x.1.1"} }},
	{"later than it takes to take over", "L1", halted, func(t *tale) { t.moved(1, 26.5) }},
	{"the network between the nodes is no excuse", "L1", halted,
		func(t *tale) { t.Faults[0].Targets = []string{Network} }},
	{"it had an owner when a third node stood still", "L1", stalled, func(t *tale) {
		t.Claims[2].Invoke, t.Claims[2].Return = sec(22), sec(22)
	}},
	{"taken, and not handed over", "L1", handed, func(t *tale) { t.Releases = nil }},
	{"handed over too slowly", "L1", handed, func(t *tale) { t.Releases[0].At = sec(18) }},
	{"handed over long before", "L1", handed, func(t *tale) {
		t.Releases[0].At, t.Claims[2].Invoke, t.Claims[2].Return = sec(12), sec(12.1), sec(12.1)
	}},
	{"a change of owners in order is no cause", "S10", twice, func(t *tale) { t.Faults[0].Orderly = true }},
	{"a fault of another node is no cause", "S10", twice,
		func(t *tale) { t.Faults[0].Targets = []string{"z"}; t.Releases = nil }},
	{"its beats were heard before the network was cut", "S10", stranded,
		func(t *tale) { t.Faults[0].From = sec(23.6) }},
	{"its beats were heard when the network was whole", "S10", stranded,
		func(t *tale) { t.Faults[0].To = sec(23.4) }},
	{"its beats did not have to cross", "S10", stranded,
		func(t *tale) { t.Claims, t.Releases = t.Claims[:2], nil }},
	{"its partition came back to who hears its beats", "S10", stranded,
		func(t *tale) { t.Claims[2].Node = "x.1" }},
	{"its beats were not heard, and its lease went on", "S10", stranded,
		func(t *tale) { t.Attempts[len(t.Attempts)-1].At = sec(23.9) }},
	{"who hears its beats did not stand still", "S10", mute,
		func(t *tale) { t.Faults[0].Targets = []string{"z"} }},
	{"early by the clock of another", "S1", swift, func(t *tale) { t.Faults[0].Targets = []string{"y"} }},
	{"put alone, and early by the clock of another", "S1", together,
		func(t *tale) { t.Ops[0].Kind, t.Ops[0].Batch = Put, "" }},
	{"no limit, and another node stood still", "L1", withheld,
		func(t *tale) { t.Ops[0].Spec.ConcurrencyKey = "" }},
	{"told of a success long after the fault", "S3", unsung, func(t *tale) { t.moved(5, 19) }},
	{"handed out by an owner that was deposed", "S6", written, func(t *tale) {
		t.Attempts[3].Partition, t.Attempts[3].Epoch = 1, 1
	}},
	{"a write after the release", "S7", written, func(t *tale) { t.Writes[0].At = sec(34.5) }},
	{"a write after the claim of another", "S7", written,
		func(t *tale) { t.Releases, t.Writes[0].At, t.Writes[1].At = nil, sec(35.5), sec(34) }},
}

func TestWhatAFaultReaches(t *testing.T) {
	t.Parallel()
	for _, c := range reached {
		t.Run(c.name, c.test)
	}
}
