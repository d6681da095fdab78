package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// elapsed returns the time since the engine was made, in nanoseconds, by a monotonic clock that nobody can
// set. It is never 0.
func (e *Engine) elapsed() int64 { return int64(time.Since(e.clock)) + 1 }

// A lease is renewed after a third of its duration. If that fails, it is tried again every fifteenth until
// the lease runs out.
const (
	renewParts = 3
	retryParts = 15
)

// validFor is how long this node relies on a lease, counted from the start of its last renewal. It is less
// than the store's duration by a tenth: clocks run at different speeds, and work that has been decided takes
// a moment to finish.
func (e *Engine) validFor() time.Duration { return e.cfg.LeaseTTL - e.cfg.LeaseTTL/10 }

// keep renews the leases until the engine stops.
func (e *Engine) keep() {
	every, again := e.renewEvery()
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-t.C:
		case <-e.renewNow:
		}
		if e.renew() {
			t.Reset(every)
		} else {
			t.Reset(again)
		}
	}
}

// If critical runs are to leave while the store is away, leases are renewed this often, however long they
// last: the node finds out soon that the store is away, and its leases last as long as they can then. A
// renewal that takes as long tells that the store does not answer, but is not given up before renewNoLonger:
// a slow store renews them.
const (
	renewAtLeast  = 2 * time.Second
	retryAtLeast  = 500 * time.Millisecond
	renewNoLonger = 10 * time.Second
)

// renewEvery returns how often leases are renewed, and after how long a renewal that has failed is tried
// again.
func (e *Engine) renewEvery() (every, again time.Duration) {
	every, again = e.cfg.LeaseTTL/renewParts, e.cfg.LeaseTTL/retryParts
	if e.cfg.FireCritical {
		every, again = min(every, renewAtLeast), min(again, retryAtLeast)
	}
	return every, again
}

// renew extends the leases; ok is false if the store did not. It tells partitions whose term is over, and
// those whose lease may have run out.
func (e *Engine) renew() (ok bool) {
	within := e.cfg.LeaseTTL / renewParts
	began, since, at, held := time.Now(), e.elapsed(), e.now(), e.Holdings()
	if e.cfg.FireCritical {
		within = min(within, renewNoLonger)
		defer time.AfterFunc(renewAtLeast, func() { e.reach.failed(began, errSlow) }).Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	lost, err := e.store.Leaser().Renew(ctx, e.cfg.Node, held, e.cfg.LeaseTTL)
	tells := err != nil || len(held) > 0
	if !tells {
		tells, err = e.look(ctx)
	}
	if tells {
		e.heard(began, err)
	}
	if err != nil {
		e.log.Debug("leases were not renewed", "error", err) // if it lasts, reach tells
		lost = nil
	}
	gone := map[store.Holding]bool{}
	for _, h := range lost {
		gone[h] = true
		e.parts[h.Partition].box.put(func(m *mail) { m.overTerms = append(m.overTerms, h.Term) })
	}
	for _, h := range held {
		p := e.parts[h.Partition]
		switch {
		case err == nil && !gone[h]:
			p.lease.renew(h.Term, since, at)
		case p.lease.expired(e.elapsed()):
			p.box.ring() // its round gives up the term
		}
	}
	return err == nil
}

var errSlow = fmt.Errorf("a renewal of the leases has not been answered for %v", renewAtLeast)

// Reasons for which a partition gives up a term although no write has failed.
var (
	errExpired = errors.New("the lease of the partition could not be renewed in time")
	errTaken   = errors.New("another owner has claimed the partition")
)

// lease is the lease of one partition. The claimer grants it, the engine's keeper renews it, and the lane
// ends it; any goroutine may read it.
type lease struct {
	// The term that the store gave this node; zero if there is none. It is set as soon as the claim has
	// succeeded, before the machine is loaded, because the lease must be renewed from then on.
	term     atomic.Pointer[store.Term]
	renewed  atomic.Int64 // when the last renewal began, by Engine.elapsed
	clock    atomic.Int64 // the same by the node's clock, UTC ns
	validFor int64        // how long a renewal can be relied on, from when it began
	// The latest reading of the node's clock at which something may have been handed out. It is the lane's,
	// and the claimer's while there is no term.
	handedOut int64
}

// grant begins the lease of a term by a call that began at since (Engine.elapsed) and at clock (the node's).
func (l *lease) grant(term *store.Term, since, clock int64) {
	l.term.Store(term)
	l.renewed.Store(since)
	l.clock.Store(clock)
}

// renew extends the lease, if it is still that of the term.
func (l *lease) renew(term store.Term, since, clock int64) {
	if t := l.term.Load(); t != nil && *t == term {
		l.renewed.Store(since)
		l.clock.Store(clock)
	}
}

// end forgets the term.
func (l *lease) end() { l.term.Store(&store.Term{}) }

// held returns the term; ok is false if there is none.
func (l *lease) held() (term store.Term, ok bool) {
	if t := l.term.Load(); t != nil {
		term = *t
	}
	return term, !term.IsZero()
}

// left returns how long the lease can be relied on.
func (l *lease) left(now int64) time.Duration {
	return time.Duration(l.renewed.Load() + l.validFor - now)
}

// expired reports whether the lease may have run out, so that another node may own the partition.
func (l *lease) expired(now int64) bool { return l.left(now) <= 0 }

// leapt reports whether the node's clock was set forward so far that what is due now was not due when the
// lease was renewed. Then nothing may be handed out until the lease is renewed again, because others derive
// from the lease until when something can have been handed out.
func (l *lease) leapt(clock int64) bool { return clock-l.clock.Load() >= l.validFor }

// handingOut records that something may be handed out now, by the node's clock.
func (l *lease) handingOut(clock int64) { l.handedOut = max(l.handedOut, clock) }

// checkLease gives up the term if it is over.
func (p *partitionRunner) checkLease(over []store.Term) {
	if !p.own.holds() {
		return
	}
	switch {
	case slices.Contains(over, p.own.term):
		p.lose(errTaken)
	case p.lease.expired(p.e.elapsed()):
		p.lose(errExpired)
	}
}
