package cluster

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// DefaultTTL of leases: if a node is killed, other nodes fire its runs within 5 s.
const DefaultTTL = 4 * time.Second

// Fractions of the TTL.
const (
	heartbeatParts = 4 // a node writes a heartbeat, and reads the members, this often in a TTL
	// lifeNum of lifeDen of the TTL is how long a node counts as living after its last heartbeat. It is less
	// than the leases last, so that the others know what to claim as soon as they can.
	lifeNum, lifeDen = 3, 4
)

// lifeOf returns how long a node counts as living after its last heartbeat.
func lifeOf(ttl time.Duration) time.Duration { return ttl * lifeNum / lifeDen }

// oneAnswer bounds how long the store may take for one answer.
func oneAnswer(ctx context.Context, ttl time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, ttl/heartbeatParts)
}

// monotonic is a clock that nobody sets.
type monotonic struct{ zero time.Time }

// elapsed returns the time since the clock was started.
func (m monotonic) elapsed() time.Duration { return time.Since(m.zero) }

// notAnswering stands for a time since when the store has answered, while it does not answer.
const notAnswering = time.Duration(math.MaxInt64)

// heartbeats records what came of this node's heartbeats and of what else it asked of the store, by the
// monotonic clock. Its methods may be called at any time; those that record are called with the turn.
type heartbeats struct {
	clock    monotonic
	ttl      time.Duration
	last     atomic.Int64 // when the newest one that the store has taken was begun
	answered atomic.Int64 // when the newest request that the store has answered was begun
	steady   atomic.Int64 // since when none has failed; notAnswering = the last one failed
	outages  outages
}

func newHeartbeats(clock monotonic, ttl time.Duration) *heartbeats {
	h := &heartbeats{clock: clock, ttl: ttl}
	h.failed()
	return h
}

// taken records that the store has taken a heartbeat.
func (h *heartbeats) taken(began time.Duration) {
	h.steady.CompareAndSwap(int64(notAnswering), int64(began))
	h.last.Store(int64(began))
	h.answered.Store(int64(began))
}

// failed records that the store has not taken a heartbeat.
func (h *heartbeats) failed() { h.steady.Store(int64(notAnswering)) }

// read records what the store has said of the owners.
func (h *heartbeats) read(v *view, began time.Duration) {
	h.answered.Store(int64(began))
	h.outages.update(v, began, h.ttl/unfitParts)
}

// age returns how long ago the last heartbeat was begun that the store has taken.
func (h *heartbeats) age() time.Duration { return h.clock.elapsed() - time.Duration(h.last.Load()) }

// silent returns how long the store has not answered.
func (h *heartbeats) silent() time.Duration {
	return h.clock.elapsed() - time.Duration(h.answered.Load())
}

// after reports whether a heartbeat was written after since, and the node still counts as living.
func (h *heartbeats) after(since time.Time) bool {
	return !h.clock.zero.Add(time.Duration(h.last.Load())).Before(since) && h.age() < lifeOf(h.ttl)
}

// answering returns since when the store has answered all heartbeats and has ended no more than single terms;
// notAnswering, if it did not answer the last one. ago is how long ago this node last lost most of its terms
// together, if it ever has. A store that fails over may answer the heartbeats before and after.
func (h *heartbeats) answering(ago time.Duration, ever bool) time.Duration {
	since := time.Duration(h.steady.Load())
	if since == notAnswering || h.age() > 2*h.ttl/heartbeatParts {
		return notAnswering
	}
	if ever {
		since = max(since, h.clock.elapsed()-ago)
	}
	return max(since, time.Duration(h.outages.last.Load()))
}
