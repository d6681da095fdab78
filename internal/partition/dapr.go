package partition

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Jobs of Dapr differ where Dapr's users would notice (docs/dapr.md): an attempt goes with its stream and does not count then,
// retries are due at times that hang on nothing but the scheduled time, and the end of a job's life bounds its scheduled times
// alone, not when their runs are delivered.

// isDapr reports whether e is a job of Dapr or a run of one. Its name says so, also while its spec is not in memory.
func (e *entry) isDapr() bool { return strings.HasPrefix(e.ref.Name, carillon.DaprPrefix) }

// concurrencyKey is what the limits of Dapr's sidecars apply to, besides the queue.
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

// keptFor is how long an attempt that an earlier owner has kept is waited for. That owner passes on its result, or that its stream
// has ended, and sends heartbeats for it while neither comes; unless it is killed meanwhile: of that nobody tells.
const keptFor = 30 * time.Second

// KeptHeartbeatInterval is how often an owner sends heartbeats for attempts of streams that it has kept: some may be lost.
const KeptHeartbeatInterval = keptFor / 3

// miss takes back an attempt of which its owner has not been heard in time.
func (m *Machine) miss(e *entry, now int64) {
	m.withdraw(e)
	m.touch(e)
	m.enqueue(e, now)
}

// reclaim takes back an attempt that an earlier owner handed out: its stream has ended with that owner. That need not be
// written, as every later owner would do the same.
func (m *Machine) reclaim(e *entry, now int64) {
	e.place = running
	m.grants++
	m.adoptPermit(e)
	m.withdraw(e)
	e.state.Run.Limited = false // its token may have been given back by an owner who did not get to write more
	m.enqueue(e, now)
}
