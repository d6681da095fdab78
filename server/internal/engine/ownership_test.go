package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

var errTest = errors.New("the store is away")

// inState returns an ownership in a state. A claiming one comes from a partition that was lost.
func inState(s ownershipState) *ownership {
	o := &ownership{cause: message.ErrNotOwner}
	o.wanted.Store(true)
	switch s {
	case unowned:
		return o
	case claiming:
		o = inState(lost)
		o.claim(0)
		return o
	case owned:
		o.claim(0)
		o.begin(store.Term{Epoch: 1})
		return o
	}
	o = inState(owned)
	if s == leaving {
		o.leave(1)
	} else {
		o.lose(errTest, false, &pendingRelease{})
	}
	return o
}

// TestTransitions lists every transition in every state; "" is one that cannot be.
func TestTransitions(t *testing.T) {
	over := pendingRelease{}
	for name, tr := range map[string]struct {
		do   func(o *ownership)
		want [lost + 1]string // from unowned, claiming, owned, leaving, lost
	}{
		"claim":     {func(o *ownership) { o.claim(0) }, [...]string{"claiming", "", "", "", "claiming"}},
		"contested": {func(o *ownership) { o.contested(errTest, 0) }, [...]string{"", "unowned", "", "", ""}},
		// back to where the claim began
		"claimFailed": {func(o *ownership) { o.claimFailed(errTest, over) }, [...]string{"", "lost", "", "", ""}},
		"damaged":     {func(o *ownership) { o.damaged(errTest, over, 0) }, [...]string{"", "lost", "", "", ""}},
		"begin":       {func(o *ownership) { o.begin(store.Term{Epoch: 2}) }, [...]string{"", "owned", "", "", ""}},
		"leave":       {func(o *ownership) { o.leave(2) }, [...]string{"", "", "leaving", "", ""}},
		"left":        {(*ownership).left, [...]string{"", "", "", "unowned", ""}},
		"lose":        {func(o *ownership) { o.lose(errTest, false, nil) }, [...]string{"", "", "lost", "lost", ""}},
		"lose, elsewhere": {func(o *ownership) { o.lose(errTest, true, nil) },
			[...]string{"", "", "unowned", "unowned", ""}},
	} {
		for s := range lost + 1 {
			t.Run(fmt.Sprintf("%v/%v", s, name), func(t *testing.T) {
				o := inState(s)
				got := func() (got string) {
					defer func() {
						if recover() != nil {
							got = ""
						}
					}()
					tr.do(o)
					return o.state().String()
				}()
				if got != tr.want[s] {
					t.Errorf("leads to %q, want %q", got, tr.want[s])
				}
				if got == "" && o.state() != s {
					t.Errorf("a refused transition left the state %v", o.state())
				}
			})
		}
	}
}

// TestAFailedClaimChangesNoOwner: calls go on to be refused as before the claim.
func TestAFailedClaimChangesNoOwner(t *testing.T) {
	for _, from := range []ownershipState{unowned, lost} {
		o := inState(from)
		before := o.elsewhere()
		for range 3 {
			o.claim(0)
			if o.elsewhere() != before {
				t.Errorf("%v: elsewhere is %v during the claim", from, !before)
			}
			o.claimFailed(errTest, pendingRelease{})
			if !o.is(from) || o.elsewhere() != before {
				t.Errorf("%v: a failed claim leads to %v", from, o.state())
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	gone := func(f func(o *ownership)) *ownership { o := inState(owned); f(o); return o }
	for name, c := range map[string]struct {
		o    *ownership
		want error
	}{
		"unowned":         {inState(unowned), message.ErrNotOwner},
		"leaving":         {inState(leaving), message.ErrNotOwner},
		"lost":            {inState(lost), message.ErrNotTaken},
		"claimed again":   {inState(claiming), message.ErrNotTaken},
		"lost to another": {gone(func(o *ownership) { o.lose(errTaken, true, nil) }), message.ErrNotOwner},
		"not wanted": {gone(func(o *ownership) { o.lose(errTest, false, nil); o.wanted.Store(false) }),
			message.ErrNotOwner},
		"handed over":      {gone(func(o *ownership) { o.leave(1); o.left() }), message.ErrNotOwner},
		"another holds it": {afterClaim(func(o *ownership) { o.contested(errTest, 0) }), message.ErrNotOwner},
		"cannot be loaded": {afterClaim(func(o *ownership) {
			o.damaged(store.ErrDamaged, pendingRelease{},
				0)
		}), store.ErrDamaged},
		"could not be read": {afterClaim(func(o *ownership) { o.claimFailed(errTest, pendingRelease{}) }),
			message.ErrNotTaken},
	} {
		if err := c.o.refusal(7); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// afterClaim returns an ownership whose claim, after a loss, has ended as f says.
func afterClaim(f func(o *ownership)) *ownership {
	o := inState(claiming)
	f(o)
	return o
}

// TestUnreleasedTerms walks at random: a term that the store may believe in is kept until the next claim
// succeeds, another node has the partition, or it is taken to be released.
func TestUnreleasedTerms(t *testing.T) {
	o, rng := inState(unowned), rand.New(rand.NewPCG(1, 2))
	kept := false
	for i := range 100_000 {
		now := int64(i)
		switch s := o.state(); {
		case s == unowned || s == lost:
			o.wanted.Store(rng.IntN(3) > 0)
			if o.wanted.Load() {
				o.claim(now)
			} else if ok := o.unreleased != nil; ok != kept {
				t.Fatalf("step %d: a term to release: %v, want %v", i, ok, kept)
			} else {
				o.unreleased, kept = nil, false
			}
		case s == claiming:
			switch rng.IntN(4) {
			case 0:
				o.contested(errTest, now)
				kept = false
			case 1:
				o.claimFailed(errTest, pendingRelease{})
				kept = true
			case 2:
				o.damaged(store.ErrDamaged, pendingRelease{}, now)
				kept = true
			default:
				o.begin(store.Term{Epoch: uint64(i)})
				kept = false
			}
		case s == owned && rng.IntN(2) == 0:
			o.leave(now)
		case s == leaving && rng.IntN(2) == 0:
			o.left()
		case rng.IntN(2) == 0:
			o.lose(errTaken, true, nil)
		default:
			o.lose(errTest, rng.IntN(2) == 0, &pendingRelease{})
			kept = true
		}
		if o.holds() && o.unreleased != nil {
			t.Fatalf("step %d: a term is owned and to be released", i)
		}
	}
}

func TestLease(t *testing.T) {
	l, ttl := lease{validFor: 100}, int64(100)
	if _, held := l.held(); held {
		t.Error("held before it was granted")
	}
	term, next := store.Term{Epoch: 1}, store.Term{Epoch: 2}
	l.grant(&term, 10, 1000)
	if got, held := l.held(); !held || got != term {
		t.Errorf("held %v, %v", got, held)
	}
	for now, want := range map[int64]bool{10: false, 10 + ttl - 1: false, 10 + ttl: true} {
		if got := l.expired(now); got != want {
			t.Errorf("expired at %d: %v", now, got)
		}
	}
	if l.leapt(1000+ttl-1) || !l.leapt(1000+ttl) {
		t.Error("the node's clock may be ahead by less than the lease lasts")
	}
	l.renew(next, 50, 1050) // of another term
	if l.left(10) != time.Duration(ttl) {
		t.Error("the renewal of another term counts")
	}
	l.renew(term, 50, 1050)
	if l.expired(149) || !l.expired(150) || l.leapt(1149) {
		t.Error("the renewal does not count")
	}
	l.end()
	if _, held := l.held(); held {
		t.Error("held after its end")
	}
}
