package cluster

import (
	"math/rand/v2"
	"testing"
)

// TestMembershipTransitions: every pair of a state and an event that changes something.
func TestMembershipTransitions(t *testing.T) {
	type pair struct {
		from memberState
		by   memberEvent
	}
	changes := map[pair]memberState{
		{stateJoining, eventJoined}:  stateMember,
		{stateJoining, eventLeave}:   stateLeaving,
		{stateJoining, eventFinish}:  stateEnding,
		{stateMember, eventDrain}:    stateDrained,
		{stateMember, eventLeave}:    stateLeaving,
		{stateMember, eventFinish}:   stateEnding,
		{stateMember, eventTaken}:    stateReplaced,
		{stateDrained, eventRestore}: stateMember,
		{stateDrained, eventLeave}:   stateLeaving,
		{stateDrained, eventFinish}:  stateEnding,
		{stateDrained, eventTaken}:   stateReplaced,
		{stateLeaving, eventFinish}:  stateEnding,
		{stateLeaving, eventTaken}:   stateReplaced,
		{stateEnding, eventTaken}:    stateReplaced,
	}
	for from := stateJoining; from <= stateClosed; from++ {
		for e := eventJoined; e <= eventClose; e++ {
			want, ok := changes[pair{from, e}]
			if !ok {
				want = from
			}
			if e == eventClose {
				want = stateClosed
			}
			if got := from.after(e); got != want {
				t.Errorf("state %d, event %d: %d, want %d", from, e, got, want)
			}
		}
	}
}

// TestMembershipNeverComesBack: who departs does not own again, and each channel is closed once, at random
// events.
func TestMembershipNeverComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		m := newMembership()
		for range 20 {
			before := m.state()
			changed := m.apply(memberEvent(r.IntN(int(eventClose) + 1)))
			now := m.state()
			if changed != (before != now) || now < before && (before != stateDrained || now != stateMember) {
				t.Fatalf("from %d to %d, changed %v", before, now, changed)
			}
			if (before.over() || before.departs()) && !now.over() && !now.departs() {
				t.Fatalf("from %d back to %d", before, now)
			}
		}
	}
}
