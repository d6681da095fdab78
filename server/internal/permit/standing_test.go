package permit

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

func TestACounterSaysHowALimitStands(t *testing.T) {
	lineOf := func(address string) delivery.Line {
		return delivery.Line{Limit: homeKey, Queue: delivery.Queue{Kind: "worker", Address: address}}
	}
	c := NewCounter(limitedTo(2), func(int, delivery.Line, int) {})
	if s := c.Standing(message.LimitStands{Limit: homeKey}); s.Held != 0 || s.Holders != nil {
		t.Errorf("nothing has happened: %+v", s)
	}
	for _, p := range []int{7, 3} {
		if ok, _ := c.Take(p, lineOf("q")); !ok {
			t.Fatal("there are two permits")
		}
	}
	for p, order := range map[int]int64{1: 10, 2: 20, 3: 30} {
		c.Wait(p, lineOf("q"), order, 5)
	}
	s := c.Standing(message.LimitStands{Limit: homeKey, From: 3, Order: 25})
	if s.Held != 2 || s.Before != 2 || !slices.Equal(s.Holders, []int{3, 7}) {
		t.Errorf("%+v", s)
	}
	if s := c.Standing(message.LimitStands{Limit: homeKey, From: 1, Order: 15}); s.Before != 0 {
		t.Errorf("the first of its partition: %+v", s)
	}
	c.Take(1, delivery.Line{Limit: delivery.ActorLimit("ns", "cat", "")})
	if uses := c.Uses(); !slices.Equal(uses, []Use{{homeKey, 2}}) {
		t.Errorf("uses %+v", uses)
	}
}

func TestAHomeSaysHowALimitStands(t *testing.T) {
	h := NewHome(store.Term{Epoch: 1}, limitedTo(3), nil)
	if s := h.Standing(message.LimitStands{Limit: homeKey}); s.Held != 0 || s.Holders != nil {
		t.Errorf("nothing has happened: %+v", s)
	}
	for p, want := range []int{2, 1, 4, 5} {
		h.Answer(askerOf(p, 1), []message.PermitRequest{{Limit: homeKey, Want: want, Order: int64(p)}})
	}
	s := h.Standing(message.LimitStands{Limit: homeKey, From: 3, Order: 3})
	if s.Held != 3 || s.Before != 1 || !slices.Equal(s.Holders, []int{0, 1}) {
		t.Errorf("%+v", s)
	}
	if uses := h.Uses(); !slices.Equal(uses, []Use{{homeKey, 3}}) {
		t.Errorf("uses %+v", uses)
	}
}

func TestAStandingIsBounded(t *testing.T) {
	h := NewHome(store.Term{Epoch: 1}, limitedTo(100), nil)
	for p := range 50 {
		h.Answer(askerOf(p, 1), []message.PermitRequest{{Limit: homeKey, Want: 1}})
	}
	if s := h.Standing(message.LimitStands{Limit: homeKey}); s.Held != 50 || len(s.Holders) != mostHolders {
		t.Errorf("%+v", s)
	}
}
