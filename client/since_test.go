package client

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestSinceIsALowerBound: whatever the delays on both ways and the node's clock, no message is dated later
// than it was sent; and one that is sent soon after a request is dated no earlier than the request.
func TestSinceIsALowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		var b lowerBound
		var elapsed time.Duration // of this process's clock
		span := func(label string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, label))
		}
		b.sending()
		b.zero, b.from = start, start
		b.at[1] = start
		rate := 1 + rapid.Float64Range(-1, 1).Draw(t, "rate")/drift/2
		began := span("the hello's way", time.Second)
		clock := func(at time.Duration) int64 { return int64(float64(at-began) * rate) }
		type request struct{ sent, came time.Duration }
		requests := []request{{0, began}}
		elapsed = began + time.Microsecond // in which the node got ready
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			elapsed += span("idle", 10*time.Minute)
			if rapid.Bool().Draw(t, "request") {
				b.sending()
				b.at[b.sent%requestsKept] = start.Add(elapsed)
				came := max(elapsed+span("there", time.Minute), requests[len(requests)-1].came)
				requests = append(requests, request{elapsed, came})
				continue
			}
			sent := max(elapsed, began)
			heard := 0
			for i, r := range requests {
				if r.came <= sent {
					heard = i + 1
				}
			}
			elapsed = sent + span("back", time.Minute)
			since := b.since(&pb.WorkResponse{Heard: int64(heard), Clock: clock(sent)}, start.Add(elapsed)).Sub(start)
			if since > sent {
				t.Fatalf("sent at %v, dated %v", sent, since)
			}
			if least := requests[heard-1].sent; since < least-(elapsed-least)/drift-1 {
				t.Fatalf("dated %v, before the request of %v", since, least)
			}
		}
	})
}

func TestANodeThatDoesNotSayWhen(t *testing.T) {
	var b lowerBound
	b.sending()
	if since := b.since(&pb.WorkResponse{}, time.Now()); !since.IsZero() {
		t.Errorf("dated %v", since)
	}
}

// TestASuspendedMachineKnowsNothing: its clock stood still while the wall clock went on.
func TestASuspendedMachineKnowsNothing(t *testing.T) {
	var b lowerBound
	b.sending()
	b.age(0, time.Hour)
	now := time.Now()
	if since := b.since(&pb.WorkResponse{Heard: 1, Clock: 1}, now); now.Sub(since) < time.Hour {
		t.Errorf("dated %v ago", now.Sub(since))
	}
}
