package dispatch

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestLastConsumerLeaves(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(1)
	take(h, 1, q, 2, delivery.Head{})
	c.registration.Leave()
	if given := l.take(); len(given) != 1 || given[0] != slotsOf(1, q, 0) {
		t.Fatalf("who waited was not told: %v", given)
	}
	h.Deliver(1, runsOf(1, q, 1, 1), nil)
	if len(l.undelivered) != 1 || len(c.got) != 0 {
		t.Fatalf("undelivered %v", l.undelivered)
	}
	if n, ok := take(h, 1, q, 2, delivery.Head{}); n != 0 || ok {
		t.Fatalf("got %d %v", n, ok)
	}
	if len(h.queues) != 0 || len(h.registrations) != 0 {
		t.Fatal("something is left behind")
	}
}
