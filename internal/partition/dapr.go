package partition

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Jobs of Dapr differ where Dapr's users would notice (docs/dapr.md). An attempt ends with its stream and
// then does not count. Retries are due at times that depend only on the scheduled time. The end of a job's
// life bounds its scheduled times, but not when their runs are delivered.

// isDapr reports whether e is a job of Dapr or a run of one. The name says so, even while the spec is not in
// memory.
func (e *entry) isDapr() bool { return strings.HasPrefix(e.ref.Name, carillon.DaprPrefix) }

// concurrencyKey returns the key that the limits of Dapr's sidecars apply to, besides the queue.
func concurrencyKey(t *carillon.Target) string {
	if t.Dapr == nil {
		return ""
	}
	return t.Dapr.ConcurrencyKey
}

// expired reports whether a run of e that has begun must not go on at an instant because e's life has ended.
func (e *entry) expired(at int64) bool {
	return e.state.Expires != 0 && at > e.state.Expires && !e.isDapr()
}

// keptFor is how long to wait for an attempt that an earlier owner has kept. That owner relays its result or
// the end of its stream, and sends heartbeats for it until then. If that owner is killed meanwhile, nobody
// says so.
const keptFor = 30 * time.Second

// KeptHeartbeatInterval is how often an owner sends heartbeats for the attempts that it has kept. Some may be
// lost.
const KeptHeartbeatInterval = keptFor / 3

// miss withdraws a kept attempt whose earlier owner has not been heard of in time.
func (a *Attempts) miss(e *entry, now int64) {
	a.withdraw(e)
	a.due.touch(e)
	a.due.enqueue(e, now)
}

// reclaim withdraws an attempt that an earlier owner handed out: its stream has ended with that owner. That
// need not be written, as any later owner would do the same.
func (a *Attempts) reclaim(e *entry, now int64) {
	a.begin(e, takenOver)
	a.due.permits.adopt(e)
	a.withdraw(e)
	e.state.Run.Limited = false // an owner may have returned its permit without writing the run
	a.due.enqueue(e, now)
}
