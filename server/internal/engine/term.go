package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
)

// begin starts to serve under a new term: the partition is owned from here on.
func (p *partitionRunner) begin(t *claimResult) {
	endOvertime(p)
	p.orphans.overtime.Store(nil)
	p.shard, p.m, p.permits, p.replies, p.unfinished = t.shard, t.m, t.permits, replies{}, true
	again := t.follows(&p.own)
	p.box.keep(func(m *mail) {
		for i := range m.losses {
			l := &m.losses[i]
			l.former, l.others = true, l.others || !again
		}
	})
	p.relay.stop()
	p.marks = newMarkSweep(t.term)
	p.waiters.next.Store(p.e.elapsed() + int64(waitersFirst))
	p.health.Began(p.e.elapsed())
	p.reads = reads{p.number, p.lane, &p.lease, t.shard, p.box.ring}
	p.records, p.rooms = newRoundRecords(inMemory{t.m, t.m.Records, t.m.Window}, &p.reads),
		newRooms(p.number, t.term, p.e.dispatcher, p.e.reach.catchUp)
	p.intake = intake{t.m, &p.reads, &p.records, &p.replies, p.box}
	p.timers.wake = 0
	p.own.begin(t.term)
	p.e.watches.tail.look(p.number)
}

// leave begins to hand the partition over: nothing more is handed out, and what memory holds is sent to the
// store.
func (p *partitionRunner) leave() {
	p.own.leave(p.e.elapsed())
	p.forgetSent()
	p.m.Attempts.HandOver(p.e.now())
	p.permits.close()
	p.finish()
	p.keepOrphans(p.m)
	p.e.dispatcher.Forget(p.number)
}

// left ends the hand-over: everything that memory held is durable.
func (p *partitionRunner) left() {
	p.replies.refuse(notOwner(p.number))
	over, took := p.pendingRelease(p.own.term), time.Duration(p.e.elapsed()-p.own.handOverAt)
	p.own.left()
	p.drop()
	p.e.claims.release(over)
	p.e.log.Debug("partition handed over", "partition", p.number, "epoch", over.term.Epoch, "took", took)
	p.e.ownershipLog.add(p.number, took, ownershipLine{message: "partitions handed over"})
	if f := p.e.cfg.Events.HandedOver; f != nil {
		f(p.number, took)
	}
}

// lose gives up the term. What memory holds may be ahead of the store, so it is thrown away and all waiting
// callers are answered. If this node is still to own the partition, it claims it again under a new term, and
// loads it again.
func (p *partitionRunner) lose(cause error) {
	isUnknown := store.OutcomeOf(cause) == store.Unknown
	p.e.log.Debug("partition lost its term", "partition", p.number, "epoch", p.own.term.Epoch, "error", cause,
		"outcome_unknown", isUnknown)
	p.e.ownershipLog.add(p.number, 0, ownershipLine{"partitions lost their terms", cause.Error(), isUnknown})
	p.replies.lose(cause, p.lane.inFlight(p), p.e.elapsed())
	p.takeBack(p.m.Attempts.PendingDeliveries())
	if !p.own.is(leaving) { // a hand-over has already done so
		p.keepOrphans(p.m)
		beginOvertime(p, cause)
	}
	if taken(cause) {
		p.health.Clear()
		p.own.lose(cause, true, nil)
	} else {
		p.health.Fail(cause, p.e.elapsed(), true)
		over := p.pendingRelease(p.own.term)
		p.own.lose(cause, p.e.cfg.Peers != nil && errors.Is(cause, errExpired), &over)
	}
	p.drop()
	p.lostTerm()
	if f := p.e.cfg.Events.Lost; f != nil {
		f(p.number)
	}
}

// drop forgets the machine and the term.
func (p *partitionRunner) drop() {
	p.m, p.permits, p.shard, p.replies = nil, nil, nil, replies{}
	p.intake.m, p.records.m, p.reads.shard = nil, nil, nil // so that the machine's memory can be freed
	p.figures.clear()
	p.abandon()
	p.e.dispatcher.Forget(p.number)
	p.box.ring() // calls whose records were being read can be refused now
}

// taken reports whether a term was lost because another owner has claimed the partition.
func taken(cause error) bool {
	return errors.Is(cause, errTaken) || store.OutcomeOf(cause) == store.Fenced
}

// takeBack keeps pending deliveries, which will now not be sent, for the next term of this node. The store
// may hold their attempts as handed out, and without this their runs would wait until the attempts' leases
// run out.
func (p *partitionRunner) takeBack(pending []message.Token) {
	p.forgetSent()
	p.box.keep(func(m *mail) {
		for _, tok := range pending {
			m.losses = append(m.losses, loss{tok: tok, undelivered: true})
		}
	})
}

// forgetSent forgets reports that an earlier term did not send attempts which this one has made again.
func (p *partitionRunner) forgetSent() {
	p.box.keep(func(m *mail) {
		m.losses = slices.DeleteFunc(m.losses, func(l loss) bool { return l.former && p.m.Attempts.Made(l.tok) })
	})
}

// abandon forgets a term.
func (p *partitionRunner) abandon() {
	p.lease.end()
	p.e.limiter.locked(func(c *permit.Counter) { c.Abandon(p.number) }) // has no effect in a cluster
}

// leftOpen returns the error for a caller whose change the store may or may not have taken.
func leftOpen(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "",
		"it is not known whether the store took the change: %w", cause)
	err.Unknown = true
	return err
}

// unavailable returns the error for a caller whose change was not sent to the store, or which the store has
// certainly not taken.
func unavailable(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "%w: %w", message.ErrNotTaken, cause)
	err.Err = fmt.Errorf("%w: %w", message.ErrNotTaken, cause)
	if taken(cause) {
		err.Err = fmt.Errorf("%w: %w", message.ErrNotOwner, cause)
	}
	return err
}
