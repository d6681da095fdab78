package engine

import (
	"errors"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// overtime is what goes on of a term that has ended because the store did not take a write, if critical runs
// are to leave nevertheless (Config.FireCritical): its machine, until the lease ends. So long no other node
// can own the partition. Something leaves only while the store is away: a write may fail for another reason.
// What the store has not taken is of no consequence: the machine blocks the runs that depend on it, callers
// have been answered, and what consumers say is kept for the next term.
//
//	owned ── a write fails ──► lost, claiming, lost …  ──► owned, under the next term
//	                           overtime ─────────────┘     what has left is in doubt: made again under its token
//	                             the store grants a claim,
//	                             or the lease ends
//
// The next term must know until when something has left (Terms.End), so the claimer ends the overtime as soon
// as the store has granted it that term, before it computes that.
type overtime struct {
	p     *partitionRunner
	until int64 // when the lease ends, by Engine.elapsed
	wake  int64 // when the next round is due, by Engine.elapsed; the lane's

	mu        sync.Mutex // held in rounds
	over      bool
	handedOut int64              // the latest reading of the node's clock at which something may have left
	m         *partition.Machine // nil once what has left is with the orphans
	rooms     rooms
}

// beginOvertime keeps the machine of a term that is given up, if that is to go on.
func beginOvertime(p *partitionRunner, cause error) {
	left := p.lease.left(p.e.elapsed())
	if !p.e.cfg.FireCritical || !maybeAway(cause) || left <= 0 || p.own.is(leaving) || !p.own.wanted.Load() {
		return
	}
	p.m.Mute()
	term := p.own.term
	term.Nonce++ // slots that were on their way to the term have been freed
	o := &overtime{p: p, until: p.e.elapsed() + int64(left), handedOut: p.lease.handedOut, m: p.m,
		rooms: newRooms(p.number, term, p.e.dispatcher, p.e.reach.catchUp)}
	o.rooms.reduced = true
	p.orphans.overtime.Store(o)
}

// maybeAway reports whether a term may have ended because the store is away. reach knows a little later.
func maybeAway(cause error) bool {
	_, refused := errors.AsType[*carillon.Error](cause) // a group put
	return !refused && !taken(cause) && !errors.Is(cause, errBesideDamage) && !errors.Is(cause, store.ErrFull)
}

// workOvertime hands out what is due of a term that goes on. now is by Engine.elapsed.
func workOvertime(p *partitionRunner, now int64) {
	o := p.orphans.overtime.Load()
	if o == nil || o.m == nil {
		return
	}
	if p.own.is(claiming) && p.box.answer() {
		p.timers.owed = true // its round has to wait for the claim; slots have not
	}
	sent := p.box.takeSlots()
	if len(sent) == 0 && now < o.wake {
		return
	}
	if !o.round(now, sent) {
		endOvertime(p)
	}
}

// round hands out what is due now. It reports whether it goes on.
func (o *overtime) round(now int64, sent []sentSlots) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, clock := o.p.e, o.p.e.now()
	if o.over || now >= o.until || o.p.draining() || o.p.lease.leapt(clock) {
		return false
	}
	if !e.reach.away.Load() || o.p.lane.way.Quiet() { // what has ended the term was something else
		o.rooms.refuse(sent)
		o.rooms.giveBack()
		o.rooms.deliver()
		o.wake = min(o.until, e.elapsed()+int64(askAgainAfter))
		return true
	}
	o.handedOut = max(o.handedOut, clock)
	o.m.OnlyCritical(true, true, clock)
	o.m.Tick(clock)
	o.rooms.ask(o.m, sent, clock)
	served, more := o.rooms.serve(o.m, clock)
	if served > 0 { // the machine ends attempts, and nobody hears of that
		_ = noteOrphans(o.p, o.m) // the others were called back when the term ended
	}
	o.rooms.deliver()
	o.wake = min(o.until, e.elapsed()+int64(pollEvery))
	if at, ok := o.m.NextWake(); ok {
		o.wake = min(o.wake, e.elapsed()+max(0, at-e.now()))
	}
	if more {
		o.wake = 0
		o.p.lane.ring()
	}
	return true
}

// stop ends the overtime; any goroutine may call it. It returns the latest reading of the node's clock at
// which something may have left.
func (o *overtime) stop() (handedOut int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	return o.handedOut
}

// endOvertime ends the overtime, if there is one. What it has handed out goes on at its consumers.
func endOvertime(p *partitionRunner) {
	o := p.orphans.overtime.Load()
	if o == nil {
		return
	}
	o.stop()
	if o.m != nil {
		p.keepOrphans(o.m)
		p.e.dispatcher.Forget(p.number)
		o.m, o.rooms = nil, rooms{}
	}
	o.wake = int64(1<<63 - 1)
}

// stopOvertimes ends the overtimes of partitions that the store has granted, or refused, this node. The
// claimer calls it.
func stopOvertimes(parts []*partitionRunner) {
	for _, p := range parts {
		if o := p.orphans.overtime.Load(); o != nil {
			p.lease.handedOut = max(p.lease.handedOut, o.stop())
		}
	}
}
