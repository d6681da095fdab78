package cluster

import (
	"context"
	"time"
)

// MaxSkew is how far a node's clock may be off the store's if it is to own anything.
const MaxSkew = time.Second

// driftParts is how fast two clocks may drift apart, as a part of the time that passes: what slews a clock on purpose is slower.
const driftParts = 1000

// skew is how far this node's wall clock is ahead of the store's.
type skew struct {
	low, high time.Duration // it is certainly between them
	at        time.Duration // when that was, by the clock that nobody sets
	known     bool
	off       bool // too far: the node is to own nothing
}

// ahead is the best guess.
func (s *skew) ahead() time.Duration { return s.low + s.within() }

// within is how far the truth is from the guess at most.
func (s *skew) within() time.Duration { return (s.high - s.low) / 2 }

// refine is what follows from a measurement and what was known before. A slow answer of the store, say under load, so takes nothing
// away from what a quick one has told; if the two contradict each other, a clock has been set.
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

// measure compares the clocks: the store's was read at some moment between two readings of the node's. A clock is called off, or
// right again, only if that is certain.
func (n *Node) measure(ctx context.Context) {
	ctx, cancel := n.patience(ctx)
	defer cancel()
	began, wall := n.elapsed(), n.cfg.Now()
	at, err := n.leaser.Now(ctx)
	if err != nil {
		return // the store is in trouble, which Join will tell
	}
	took, old := n.elapsed()-began, n.skew.Load()
	s := skew{low: wall.Sub(at), high: wall.Sub(at) + took, at: began, known: true}.refine(old)
	n.skew.Store(s)
	switch {
	case s.off && !old.off:
		n.log.Warn("this node's clock is off the store's: it owns nothing until that is mended",
			"ahead", s.ahead(), "within", s.within(), "limit", MaxSkew)
	case old.off && !s.off:
		n.log.Info("this node's clock is right again", "ahead", s.ahead())
	}
}

// StoreNow is the store's clock, as well as this node knows it. All nodes have it in common.
func (n *Node) StoreNow() time.Time { return n.cfg.Now().Add(-n.skew.Load().ahead()) }
