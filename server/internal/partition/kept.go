package partition

import "time"

// An owner that gives a partition to another node keeps its consumers, and with them the attempts that end
// with their streams (Attempts.HandOver sets RunState.Kept). It relays what the streams report. Without
// that, the new owner would have to make all of them again.

// An attempt that a consumer completes is kept as well (Machine.Deliver), from the write that comes before
// its message until its broker has acknowledged that. If the owner ends before, nobody knows whether the
// message was sent. So the store has it with a lease that is over: the next owner reads it at once, waits as
// long as for a heartbeat, since a predecessor that has given the partition away relays the acknowledgement,
// and then sends the attempt once more, under the same token. Whoever answers first is believed.

// unacknowledged reports whether the broker may not have the attempt in force, which a consumer completes.
func (e *entry) unacknowledged() bool { return e.state.Run.Kept && !e.traits().endsWithStream }

// keptFor is how long to wait for an attempt that an earlier owner has kept. That owner relays its result or
// the end of its stream, and sends heartbeats for it until then. If that owner is killed meanwhile, nobody
// says so.
const keptFor = 30 * time.Second

// KeptHeartbeatInterval is how often an owner sends heartbeats for the attempts that it has kept. Some may be
// lost.
const KeptHeartbeatInterval = keptFor / 3

// keptAtLeast is how long each owner waits at least: its predecessor may have heard of the attempt since the
// lease was stored, and the next heartbeat needs some time to find it.
const keptAtLeast = keptFor / 2

// keptUntil returns until when an owner that begins now waits for a kept attempt whose stored lease says when
// it was last heard of. So moves do not put it off by more than keptAtLeast. The stored lease may be that of
// an older version, which did not count from there.
func keptUntil(stored, now int64) int64 {
	return min(max(stored, now+int64(keptAtLeast)), now+int64(keptFor))
}

// miss withdraws a kept attempt whose earlier owner has not been heard of in time.
func (a *Attempts) miss(e *entry, now int64) {
	a.withdrawSent(e)
	a.due.touch(e)
	a.due.enqueue(e, now)
}

// reclaim withdraws an attempt that an earlier owner handed out: its stream has ended with that owner. That
// need not be written, as any later owner would do the same.
func (a *Attempts) reclaim(e *entry, now int64) {
	a.begin(e, takenOver)
	a.due.permits.adopt(e)
	a.withdrawSent(e)
	e.state.Run.Limited = false // an owner may have returned its permit without writing the run
	a.due.enqueue(e, now)
}
