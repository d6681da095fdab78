package worker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// An attempt in doubt is delivered again under the token that it had. Whatever the session knows of that
// token, its slots are those of what the worker has and may still answer.

// stands compares the slots and credits of the queue with what they are to be.
func (d *fakeSink) stands(t *testing.T, inFlight, credits int) {
	t.Helper()
	all := d.hub.Queues()
	if len(all) != 1 || all[0].InFlight != inFlight || all[0].Credits != credits {
		t.Errorf("%d in flight and %d credits are wanted: %+v", inFlight, credits, all)
	}
}

// TestASlotForEachAttemptNotEachDelivery of the same token to the same session, received or not.
func TestASlotForEachAttemptNotEachDelivery(t *testing.T) {
	for _, received := range []bool{true, false} {
		t.Run(fmt.Sprintf("received %v", received), func(t *testing.T) {
			d := newFakeSink(Options{})
			s := d.connect(t, 3)
			d.deliver(t, 0, 1, 0)
			left := 2 // the worker has used one for what it has received
			if received {
				receive(t, s)
				left = 1
			}
			d.deliver(t, 0, 1, 0)
			d.stands(t, 1, left)
			if r := receive(t, s); !slices.Equal(tokens(r.Runs), []string{token(0)}) {
				t.Errorf("once is wanted: %+v", r.Runs)
			}
			send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}}})
			d.stands(t, 0, left)
		})
	}
}

// TestAnAnswerStopsTheSecondDelivery of its token, which the worker has not received.
func TestAnAnswerStopsTheSecondDelivery(t *testing.T) {
	for name, answer := range map[string]func(s *Session){
		"a result": func(s *Session) {
			send(t, s, carillon.WorkRequest{Results: []carillon.Result{{Token: token(0), Outcome: carillon.OutcomeSuccess}}})
		},
		"stale":  func(s *Session) { s.Stale(token(0)) },
		"cancel": func(s *Session) { s.Cancel(token(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeSink(Options{})
			s := d.connect(t, 3)
			d.deliver(t, 0, 1, 0)
			receive(t, s)
			d.deliver(t, 0, 1, 0)
			d.stands(t, 1, 1)
			answer(s.(*Session))
			d.stands(t, 0, 2)
			d.hub.Cancel([]partition.Cancel{{Queue: queue, Token: token(0)}})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if len(d.undelivered) > 0 {
				t.Errorf("%v came back, which the worker has answered", d.undelivered)
			}
		})
	}
}
