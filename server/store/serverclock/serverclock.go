// Package serverclock keeps a clock by what the servers of a store say of theirs.
package serverclock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is this node's clock, corrected by those of some servers. A server's answer bounds how far its clock
// is ahead:
//
//	this node's clock  ──────┬──────────────────────┬─────▶
//	                         asked at t0            answered at t1
//	the server's clock       somewhere here it was within [date, date+precision)
//
// So it is ahead of this node's by at least date−t1 and less than date+precision−t0. Each answer narrows what
// was known.
//
// While the bounds include zero, this node's clock is taken for right: with NTP nothing is corrected.
// Otherwise it is corrected by the bound nearest to zero. Of several servers the median counts, so one wrong
// clock among three or more does not matter.
type Clock struct {
	now func() time.Time

	mu     sync.Mutex
	bounds map[string]bounds // by server, of those that have answered
}

// bounds are how far a server's clock is ahead of this node's.
type bounds struct {
	low, high time.Duration
	at        time.Time // when, by this node's clock
}

// driftParts bounds how fast two clocks drift apart: one part in so many, as NTP corrects a clock at most.
const driftParts = 2000

// New returns a clock that knows of no server.
func New(now func() time.Time) *Clock { return &Clock{now: now, bounds: map[string]bounds{}} }

// Own is this node's own time.
func (c *Clock) Own() time.Time { return c.now() }

// Time is the store's time.
func (c *Clock) Time() time.Time { return c.now().Add(c.Ahead()) }

// Ahead is how far the store's clock is ahead of this node's.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bounds) == 0 {
		return 0
	}
	all := make([]time.Duration, 0, len(c.bounds))
	for _, b := range c.bounds {
		all = append(all, min(max(b.low, 0), b.high))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// Known reports whether a server has answered.
func (c *Clock) Known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.bounds) > 0
}

// Bounds are how far a server's clock is ahead, at least and at most; known is false if it has not answered.
func (c *Clock) Bounds(server string) (low, high time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, known := c.bounds[server]
	return b.low, b.high, known
}

// Answer takes what an answer says together with what was known: asked and answered are times of this node,
// date is the server's, cut to the precision. If the two contradict each other, a clock has been set.
func (c *Clock) Answer(server string, asked, answered, date time.Time, precision time.Duration) {
	b := bounds{low: date.Sub(answered), high: date.Add(precision).Sub(asked), at: answered}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, known := c.bounds[server]; known {
		drift := max(b.at.Sub(old.at), 0) / driftParts
		low, high := max(b.low, old.low-drift), min(b.high, old.high+drift)
		if low <= high {
			b.low, b.high = low, high
		}
	}
	c.bounds[server] = b
}

// Follow calls ask, whose answers come by [Clock.Answer], again and again until ctx ends. What is known of a
// server that is away stays.
func (c *Clock) Follow(ctx context.Context, next func() time.Duration, ask func(context.Context) error) {
	for {
		wait := time.NewTimer(next())
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		_ = ask(ctx) // one that is away tells nothing
	}
}
