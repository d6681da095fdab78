package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/store"
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
	defer close(e.keeper)
	t := time.NewTimer(e.cfg.LeaseTTL / renewParts)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-t.C:
		case <-e.renewNow:
		}
		if e.renew() {
			t.Reset(e.cfg.LeaseTTL / renewParts)
		} else {
			t.Reset(e.cfg.LeaseTTL / retryParts)
		}
	}
}

// renew extends the leases; ok is false if the store did not. It tells partitions whose term is over, and
// those whose lease may have run out.
func (e *Engine) renew() (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL/renewParts)
	defer cancel()
	since, at, held := e.elapsed(), e.now(), e.Holdings()
	lost, err := e.store.Leaser().Renew(ctx, e.cfg.Node, held, e.cfg.LeaseTTL)
	if err != nil {
		e.log.Warn("leases were not renewed", "error", err)
		lost = nil
	}
	gone := map[store.Holding]bool{}
	for _, h := range lost {
		gone[h] = true
		e.parts[h.Partition].box.put(func(m *mail) { m.lost = append(m.lost, h.Term) })
	}
	for _, h := range held {
		p := e.parts[h.Partition]
		switch {
		case err == nil && !gone[h]:
			p.renewed(h.Term, since, at)
		case p.expired():
			p.box.ring() // its round gives up the term
		}
	}
	return err == nil
}

// renewed records that the lease of a term was extended by a call that began at since (Engine.elapsed) and at
// (the node's clock).
func (p *partitionRunner) renewed(term store.Term, since, at int64) {
	if t := p.published.Load(); t != nil && *t == term {
		p.leased.Store(since)
		p.leasedAt.Store(at)
	}
}

// Reasons for which a partition gives up a term although no write has failed.
var (
	errExpired = errors.New("the lease of the partition could not be renewed in time")
	errTaken   = errors.New("another owner has claimed the partition")
)

// expired reports whether the lease may have run out, so that another node may own the partition.
func (p *partitionRunner) expired() bool {
	return p.e.elapsed()-p.leased.Load() >= int64(p.e.validFor())
}

// outlived reports whether the lease has run out during this round, because reads took long. Nothing more may
// be handed out, as another owner may have done so. The next round gives up the term.
func (p *partitionRunner) outlived() bool {
	over := p.expired()
	if over {
		p.box.ring()
	}
	return over
}

// checkLease gives up the term if it is over.
func (p *partitionRunner) checkLease(lost []store.Term) {
	if p.m == nil {
		return
	}
	switch {
	case slices.Contains(lost, p.term):
		p.lose(errTaken)
	case p.expired():
		p.lose(errExpired)
	}
}
