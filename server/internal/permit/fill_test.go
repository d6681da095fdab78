package permit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

var ratedKey = delivery.RateLimit("ns", "k")

// rateHome is the home of a rate of one in a minute, at most two at once.
func rateHome(epoch uint64, at time.Duration) *Home {
	h := NewHome(store.Term{Epoch: epoch}, nil, func(delivery.Limit) (carillon.Rate, bool) {
		return carillon.Rate{Count: 1, Period: time.Minute, Burst: 2}, true
	})
	h.Tick(int64(at), int64(time.Hour+at))
	return h
}

// want asks for one permit, and returns the grant.
func want(h *Home, term uint64, a message.PermitRequest) message.PermitGrant {
	a.Limit = ratedKey
	return h.Answer(message.Asker{Partition: 3, Term: store.Term{Epoch: term}}, []message.PermitRequest{a})[0]
}

// TestWhatIsSaidLateOrTwice of permits that are used up counts once, and what is returned is there at once.
func TestWhatIsSaidLateOrTwice(t *testing.T) {
	h := rateHome(1, time.Second)
	g := want(h, 1, message.PermitRequest{Want: 2})
	if g.N != 2 {
		t.Fatalf("%+v", g)
	}
	// One is used, one comes back.
	said := message.PermitRequest{Stamp: g.Stamp, Spent: 1}
	for range 3 {
		if again := want(h, 1, said); again.N != 0 {
			t.Fatalf("%+v", g)
		}
	}
	if g = want(h, 1, message.PermitRequest{Stamp: g.Stamp, Spent: 1, Want: 2}); g.N != 1 || g.Want != 0 {
		t.Fatalf("what came back is given as %+v", g)
	}
	// What was said before that grant says nothing of what is left, but of what is used up.
	if g = want(h, 1, message.PermitRequest{Hold: 0, Spent: 2}); g.N != 0 || g.Spent != 2 {
		t.Errorf("%+v", g)
	}
	if at, ok := h.NextWake(); ok {
		t.Errorf("nobody waits, and it wakes at %d", at)
	}
	if g = want(h, 1, message.PermitRequest{Stamp: g.Stamp, Spent: 2, Want: 1}); g.N != 0 || g.Want != 1 {
		t.Errorf("%+v", g)
	}
	if at, ok := h.NextWake(); !ok || at != int64(61*time.Second) {
		t.Errorf("it wakes at %v, %v", time.Duration(at), ok)
	}
	s := h.Standing(message.LimitStands{Limit: ratedKey})
	if s.Next != int64(time.Hour+61*time.Second) || s.Every != time.Minute {
		t.Errorf("%+v", s)
	}
	h.Tick(int64(61*time.Second), int64(time.Hour+61*time.Second))
	if n := h.Notices(); len(n) != 1 || n[0].N != 1 || n[0].Partition != 3 {
		t.Errorf("%+v", n)
	}
}

// TestANewOwnerOfAHome knows what is handed out and what is used up, and when the bucket is full again, nothing.
func TestANewOwnerOfAHome(t *testing.T) {
	h := rateHome(1, time.Second)
	g := want(h, 1, message.PermitRequest{Want: 2})
	g = want(h, 1, message.PermitRequest{Stamp: g.Stamp, Hold: 1, Spent: 1})
	kept := h.Write()
	h = rateHome(2, 11*time.Second)
	if err := h.Load(kept); err != nil {
		t.Fatal(err)
	}
	if g = want(h, 1, message.PermitRequest{Stamp: g.Stamp, Hold: 1, Spent: 1, Want: 1}); g.N != 1 || g.Spent != 1 {
		t.Fatalf("%+v", g)
	}
	// Another owner of the partition: what its predecessor had is used up.
	if g = want(h, 2, message.PermitRequest{Want: 1}); g.N != 0 || g.Want != 1 {
		t.Fatalf("%+v", g)
	}
	if at, ok := h.NextWake(); !ok || at != int64(63*time.Second) {
		t.Errorf("it wakes at %v, %v", time.Duration(at), ok)
	}
	want(h, 2, message.PermitRequest{Stamp: g.Stamp})
	h.Write()
	h.Tick(int64(3*time.Minute), int64(time.Hour+3*time.Minute))
	h.Poll()
	if kept := h.Write(); len(kept) != 1 || kept[0].Value != nil || strings.Count(kept[0].Key, "\x00") != 1 ||
		len(h.accounts) != 0 {
		t.Errorf("it keeps %d accounts and writes %q", len(h.accounts), kept)
	}
}

// TestAnOwnerThatDoesNotKnowTheRate yet writes what is used up under it, for the one that does.
func TestAnOwnerThatDoesNotKnowTheRate(t *testing.T) {
	h := rateHome(1, time.Second)
	if g := want(h, 1, message.PermitRequest{Want: 2}); g.N != 2 {
		t.Fatalf("%+v", g)
	}
	all := map[string]store.MetaRecord{}
	keep := func(records []store.MetaRecord) {
		for _, r := range records {
			if all[r.Key] = r; r.Value == nil {
				delete(all, r.Key)
			}
		}
	}
	keep(h.Write())
	h = NewHome(store.Term{Epoch: 2}, nil, func(delivery.Limit) (carillon.Rate, bool) { return carillon.Rate{}, false })
	h.Tick(int64(2*time.Second), int64(time.Hour+2*time.Second))
	if err := h.Load(slices.Collect(maps.Values(all))); err != nil {
		t.Fatal(err)
	}
	want(h, 2, message.PermitRequest{}) // another owner of the partition: what its predecessor had is used up
	keep(h.Write())
	h = rateHome(3, 3*time.Second)
	if err := h.Load(slices.Collect(maps.Values(all))); err != nil {
		t.Fatal(err)
	}
	if g := want(h, 2, message.PermitRequest{Want: 2}); g.N != 0 || g.Want != 2 {
		t.Errorf("%+v of what was used up", g)
	}
}
