package cluster

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestConditionText: other versions read it, so it stays as it is.
func TestConditionText(t *testing.T) {
	c := condition{Phase: phaseFit, Speaks: 1, Reason: "why", Refuses: []int{1},
		Suspected: map[string][]int{"b": {2, 3}}}
	const want = `{"phase":"fit","speaks":1,"reason":"why","refuses":[1],"doubts":{"b":[2,3]}}`
	if got := c.text(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if back := conditionOf(&store.Member{State: want}); back.text() != want {
		t.Errorf("read as %+v", back)
	}
	if c := conditionOf(&store.Member{State: "{later"}); c.Phase != "" {
		t.Errorf("what cannot be read is %+v", c)
	}
}

// TestSelfPhases: which of several reasons to own nothing the others are told, and that only a fit member has
// a capacity.
func TestSelfPhases(t *testing.T) {
	for _, x := range []struct {
		events      []memberEvent
		skewed, fit bool
		want        phase
	}{
		{nil, false, false, phaseProving},
		{[]memberEvent{eventJoined}, false, true, phaseFit},
		{[]memberEvent{eventJoined}, true, true, phaseSkewed},
		{[]memberEvent{eventJoined, eventDrain}, true, true, phaseDrained},
		{[]memberEvent{eventJoined, eventDrain, eventRestore}, false, true, phaseFit},
		{[]memberEvent{eventJoined, eventDrain, eventLeave}, true, false, phaseLeaving},
		{[]memberEvent{eventJoined, eventLeave, eventFinish}, false, true, phaseEnded},
		{[]memberEvent{eventJoined, eventClose}, false, true, phaseEnded},
	} {
		n := New(Config{Member: store.Member{ID: "a", Capacity: 7},
			Store: memory.New(memory.Options{Partitions: 1})})
		for _, e := range x.events {
			n.membership.apply(e)
		}
		n.storeClock.newest.Store(&skew{off: x.skewed})
		if x.fit {
			n.prover.fitness.record(0, time.Second, 0, nil)
		}
		m := n.self()
		capacity := 0
		if x.want == phaseFit {
			capacity = 1
		}
		if got := conditionOf(&m).Phase; got != x.want || m.Capacity != capacity {
			t.Errorf("%+v: %q with a capacity of %d", x, got, m.Capacity)
		}
		n.cancel()
	}
}
