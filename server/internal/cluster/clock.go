package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// MaxSkew is how far a node's clock may be from the store's if the node is to own anything.
const MaxSkew = time.Second

// driftParts bounds the drift between two clocks: at most one part in driftParts of the time that passes.
// Deliberate slewing of a clock is slower.
const driftParts = 1000

// skew is how far this node's wall clock is ahead of the store's.
type skew struct {
	low, high time.Duration // bounds on it
	at        time.Duration // when it was measured, by the monotonic clock
	known     bool
	off       bool // it is too large, so the node is to own nothing
}

// ahead returns the best estimate.
func (s *skew) ahead() time.Duration { return s.low + s.within() }

// within returns the largest possible error of the estimate.
func (s *skew) within() time.Duration { return (s.high - s.low) / 2 }

// refine combines a measurement with what was known before. So a slow answer of the store, say under load,
// loses nothing that a quick one has told. If the two contradict each other, a clock has been set.
func (s skew) refine(old *skew) *skew {
	if old.known {
		drift := (s.at - old.at) / driftParts
		low, high := max(s.low, old.low-drift), min(s.high, old.high+drift)
		if low <= high {
			s.low, s.high = low, high
		}
	}
	switch s.off = old.off; {
	case s.low > MaxSkew || s.high < -MaxSkew:
		s.off = true
	case s.low >= -MaxSkew && s.high <= MaxSkew:
		s.off = false
	}
	return &s
}

// storeClock estimates the store's clock, which is common to all nodes.
type storeClock struct {
	leases store.Leases
	wall   func() time.Time // this node's wall clock
	clock  monotonic
	ttl    time.Duration
	log    *slog.Logger
	newest atomic.Pointer[skew]
}

// newStoreClock makes a clock that knows nothing yet.
func newStoreClock(leases store.Leases, clock monotonic, c *Config) *storeClock {
	s := &storeClock{leases: leases, wall: c.Now, clock: clock, ttl: c.TTL, log: c.Log}
	s.newest.Store(&skew{})
	return s
}

// measure compares the clocks: the store's was read at some moment between two readings of the node's. The
// node's clock is declared off, or right again, only if that is certain. The caller holds the turn.
func (c *storeClock) measure(ctx context.Context) {
	ctx, cancel := oneAnswer(ctx, c.ttl)
	defer cancel()
	began, wall := c.clock.elapsed(), c.wall()
	at, err := c.leases.Now(ctx)
	if err != nil {
		return // the store is in trouble; Join reports that
	}
	took, old := c.clock.elapsed()-began, c.skew()
	s := skew{low: wall.Sub(at), high: wall.Sub(at) + took, at: began, known: true}.refine(old)
	c.newest.Store(s)
	switch {
	case s.off && !old.off:
		c.log.Warn("this node's clock is off the store's: it owns nothing until that is mended",
			"ahead", s.ahead(), "within", s.within(), "limit", MaxSkew)
	case old.off && !s.off:
		c.log.Info("this node's clock is right again", "ahead", s.ahead())
	}
}

// skew returns the newest measurement.
func (c *storeClock) skew() *skew { return c.newest.Load() }

// now returns the best estimate of the store's clock.
func (c *storeClock) now() time.Time { return c.wall().Add(-c.skew().ahead()) }
