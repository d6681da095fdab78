package permit_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
)

// holder is a pool with one permit of a limit, which is in force. It knows of a next waiter.
func holder(rival int64) (p *permit.Pool, l delivery.Line) {
	me := message.Asker{Partition: 1, Term: store.Term{Epoch: 1, Nonce: 1}}
	p = permit.NewPool(me, 4, func(delivery.Limit) (int, bool) { return 1, true },
		func(int, delivery.Line, int) {})
	l = delivery.Line{Limit: delivery.Limit{Namespace: "ns", Key: "k"},
		Queue: delivery.Queue{Kind: "worker", Address: "q"}}
	g := message.PermitGrant{Limit: l.Limit, Term: me.Term, Stamp: message.Stamp{Epoch: 1, N: 1}, N: 1,
		NextWaiter: message.NoNextWaiter}
	p.Hear([]message.PermitGrant{g})
	p.Take(l)
	g.NextWaiter = rival
	p.Hear([]message.PermitGrant{g})
	return p, l
}

// said returns what a pool says that it holds and wants.
func said(t *testing.T, p *permit.Pool) (hold, want int) {
	t.Helper()
	asks := p.Asks(1)
	if len(asks) != 1 || len(asks[0].Asks) != 1 {
		t.Fatalf("it says %+v", asks)
	}
	return asks[0].Asks[0].Hold, asks[0].Asks[0].Want
}

// TestATokenThatIsRecalledGoesBack, however soon the partition's next run asks for a permit. Otherwise a
// limit that was lowered would not hold while a partition has a run ready whenever another ends.
func TestATokenThatIsRecalledGoesBack(t *testing.T) {
	p, l := holder(message.Recall)
	p.Free(l.Limit)
	if ok, limited := p.Take(l); ok || !limited {
		t.Fatalf("taken: %v, limited: %v", ok, limited)
	}
	p.Wait(l, 5, 1)
	if ok, _ := p.Take(l); ok {
		t.Fatal("taken by who waits")
	}
	if hold, want := said(t, p); hold != 0 || want != 1 {
		t.Errorf("it keeps %d and wants %d", hold, want)
	}
}

// TestAReservedTokenIsRecalledToo: a run for which a permit is reserved has not begun.
func TestAReservedTokenIsRecalledToo(t *testing.T) {
	p, l := holder(message.NoNextWaiter)
	p.Wait(l, 5, 1)
	p.Free(l.Limit) // and is reserved for it
	p.Hear([]message.PermitGrant{{Limit: l.Limit, Term: store.Term{Epoch: 1, Nonce: 1},
		Stamp: message.Stamp{Epoch: 1, N: 1}, N: 1, NextWaiter: message.Recall}})
	if ok, _ := p.Take(l); ok {
		t.Fatal("taken")
	}
	if hold, _ := said(t, p); hold != 0 {
		t.Errorf("it keeps %d", hold)
	}
}

// TestATokenGoesToWhoIsAsSenior: the next run of a partition does not go before one that has waited longer
// elsewhere.
func TestATokenGoesToWhoIsAsSenior(t *testing.T) {
	for order, takes := range map[int64]bool{9: true, 10: true, 11: false} {
		p, l := holder(10)
		p.Free(l.Limit)
		if ok, _ := p.Take(l); ok {
			t.Fatal("taken before it is known for whom")
		}
		p.Wait(l, order, 1)
		if ok, _ := p.Take(l); ok != takes {
			t.Errorf("order %d: taken %v", order, ok)
		}
	}
}
