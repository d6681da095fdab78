package partition

import (
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// pendingDelivery is an attempt that is handed out once it is durable.
type pendingDelivery struct {
	e   *entry
	nth uint64 // e.attempt.pending, unless the attempt was withdrawn
	d   delivery.Delivery
	seq uint64 // the batch that holds it
	at  int64  // when the attempt was made, UTC ns
}

// deliverWhenDurable writes the attempt that e has just been granted, and keeps its delivery until that is
// durable.
func (a *Attempts) deliverWhenDurable(e *entry, d delivery.Delivery, now int64) {
	a.pendingSoFar++
	e.attempt.pending = a.pendingSoFar
	a.keep(e)
	a.agenda.rearm(e)
	d.Durable = true
	a.pendingDeliveries = append(a.pendingDeliveries,
		pendingDelivery{e: e, nth: e.attempt.pending, d: d, seq: a.out.seq, at: now})
}

// Granted appends the attempts that have become durable since the last call and may now be handed out. Their
// lease and timeout begin now. To rest it appends the slots of those that were withdrawn meanwhile.
func (a *Attempts) Granted(ds []delivery.Delivery, rest []delivery.Rest,
	now int64) ([]delivery.Delivery, []delivery.Rest) {
	n := 0
	for ; n < len(a.pendingDeliveries) && a.pendingDeliveries[n].seq <= a.out.durable; n++ {
		p := &a.pendingDeliveries[n]
		e := p.e
		if e.attempt.pending != p.nth {
			rest = append(rest, a.due.queues.rest(p.d.Queue, 1, now))
			continue
		}
		e.attempt.pending = 0
		a.startClocks(e, now)
		// After a long wait it must be written again, or what is stored ends too soon.
		e.attempt.current = now-p.at < int64(grantAfter)
		p.d.Run.Started, p.d.Run.Deadline = toTime(now), toTime(now+int64(p.d.Timeout))
		a.due.permits.spend(e)
		a.begun(e, &p.d, now)
		ds = append(ds, p.d)
	}
	clear(a.pendingDeliveries[:n])
	a.pendingDeliveries = a.pendingDeliveries[n:]
	if len(a.pendingDeliveries) == 0 {
		a.pendingDeliveries = nil
	}
	return ds, rest
}

// PendingDeliveries returns the attempts that have not been handed out yet. An owner that gives up its term
// hands out none of them, although the store may hold them. Its next term can withdraw them with
// [Attempts.Undelivered], so that nobody waits for their leases to end.
func (a *Attempts) PendingDeliveries() []message.Token {
	var out []message.Token
	for i := range a.pendingDeliveries {
		if e := a.pendingDeliveries[i].e; e.attempt.pending == a.pendingDeliveries[i].nth {
			out = append(out, message.Token{Grant: e.state.Run.Grant, Run: e.state.Identity(a.cfg.Partition),
				Attempt: e.state.Run.Attempt})
		}
	}
	return out
}

// withdrawAll withdraws every attempt that has not been handed out.
func (a *Attempts) withdrawAll() {
	for i := range a.pendingDeliveries {
		if e := a.pendingDeliveries[i].e; e.attempt.pending == a.pendingDeliveries[i].nth {
			a.withdraw(e)
			a.due.touch(e)
			a.agenda.rearm(e)
		}
	}
}
