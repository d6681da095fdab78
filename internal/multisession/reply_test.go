package multisession

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestReplyStates: the way to suspect and back, and what does not lead anywhere.
func TestReplyStates(t *testing.T) {
	now := time.Now()
	r := reply{heartbeats: map[string]carillon.Heartbeat{}}
	want := func(what string, state replyState) {
		t.Helper()
		if r.state != state {
			t.Fatalf("%s: state %d, want %d", what, r.state, state)
		}
	}
	if r.ping(now) {
		t.Error("a node that owes nothing is pinged")
	}
	r.suspect()
	want("suspected without a ping", replied)
	r.sent(now)
	r.sent(now.Add(time.Second))
	want("sent", unanswered)
	if left, waits := r.left(now); left != suspectAfter || !waits {
		t.Errorf("left %v, %v", left, waits)
	}
	r.received(false)
	want("a message", replied)
	r.sent(now)
	if !r.ping(now.Add(time.Second)) || r.ping(now.Add(2*time.Second)) {
		t.Error("it is not pinged once")
	}
	r.add(&carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: "a"}, {Token: "b"}}})
	r.add(&carillon.WorkRequest{Results: []carillon.Result{{Token: "a"},
		{Token: "b", Outcome: carillon.OutcomeProgress}}})
	r.received(false)
	want("a message that answers no ping", pinged)
	if len(r.heartbeats) != 1 || r.heartbeats["b"].Token != "b" {
		t.Errorf("heartbeats %v", r.heartbeats)
	}
	r.suspect()
	r.received(false)
	want("no answer", suspect)
	if _, waits := r.left(now); waits {
		t.Error("it is watched although it is suspect")
	}
	r.received(true)
	want("an answer", replied)
	if len(r.heartbeats) > 0 {
		t.Errorf("heartbeats %v", r.heartbeats)
	}
}
