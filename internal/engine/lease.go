package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/store"
)

// elapsed is the process's own clock, which no one sets, in nanoseconds since the engine was made; never 0.
func (e *Engine) elapsed() int64 { return int64(time.Since(e.clock)) + 1 }

// A lease is renewed when a third of it has passed, and if that fails soon again, until it runs out.
const (
	renewParts = 3
	retryParts = 15
)

// validFor is how long after the begin of its last renewal a lease is believed in: less than the store does, by a margin for
// clocks that run at different speeds and for what has been decided and is not yet done.
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

// renew extends the leases; ok is false if the store did not. Partitions whose term is over are told, and so are those whose
// lease may have run out.
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
			p.box.ring() // the round sees it
		}
	}
	return err == nil
}

// renewed notes that the lease of a term was extended by a call that began then, by Engine.elapsed and by the node's clock.
func (p *partitionRunner) renewed(term store.Term, since, at int64) {
	if t := p.published.Load(); t != nil && *t == term {
		p.leased.Store(since)
		p.leasedAt.Store(at)
	}
}

// Why a partition gives up a term before a write has told it to.
var (
	errExpired = errors.New("the lease of the partition could not be renewed in time")
	errTaken   = errors.New("another owner has claimed the partition")
)

// expired reports whether the lease may have run out: another node may own the partition.
func (p *partitionRunner) expired() bool {
	return p.e.elapsed()-p.leased.Load() >= int64(p.e.validFor())
}

// outlived reports whether the lease has run out within a round, whose reads have taken long: nothing may be handed out any more, as
// another owner may have done so, and the next round gives the term up.
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
