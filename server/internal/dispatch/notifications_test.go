package dispatch

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestConsumerRefuses(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(2)
	c.refuses = true
	take(h, 1, q, 2, delivery.Head{})
	h.Deliver(1, runsOf(1, q, 1, 2), nil)
	if len(l.undelivered) != 2 {
		t.Fatalf("undelivered %v", l.undelivered)
	}
}
