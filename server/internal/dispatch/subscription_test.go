package dispatch

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestDebtAndHold(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	s := c.registration.Subscriptions[0]
	s.Grant(2)
	s.Grant(-5)
	take(h, 1, q, 1, delivery.Head{})
	s.Grant(3)
	if len(l.take()) != 0 {
		t.Fatal("a debt was ignored")
	}
	held := true
	s.Hold(func() bool { return held })
	s.Grant(1)
	if len(l.take()) != 0 {
		t.Fatal("a hold was ignored")
	}
	held = false
	s.Hold(func() bool { return held })
	if len(l.take()) != 1 {
		t.Fatal("nobody was woken after the hold")
	}
	if s.Outstanding() != 1 {
		t.Fatalf("outstanding %d", s.Outstanding())
	}
}
