package multisession

import "testing"

// TestStateTransitions: every pair of a state and an event that changes something.
func TestStateTransitions(t *testing.T) {
	type pair struct {
		from state
		by   event
	}
	changes := map[pair]state{
		{stateServing, eventGoodbye}: stateLeaving,
		{stateServing, eventShut}:    stateClosing,
		{stateServing, eventEnd}:     stateOver,
		{stateLeaving, eventShut}:    stateClosing,
		{stateLeaving, eventEnd}:     stateOver,
		{stateClosing, eventEnd}:     stateClosed,
		{stateOver, eventShut}:       stateClosed,
	}
	for from := stateServing; from <= stateClosed; from++ {
		for e := eventGoodbye; e <= eventShut; e++ {
			want, ok := changes[pair{from, e}]
			if !ok {
				want = from
			}
			got := from.after(e)
			if got != want {
				t.Errorf("state %d, event %d: %d, want %d", from, e, got, want)
			}
			if from.ended() && !got.ended() || from.shut() && !got.shut() ||
				from != stateServing && got == stateServing {
				t.Errorf("state %d, event %d: back to %d", from, e, got)
			}
		}
	}
}
