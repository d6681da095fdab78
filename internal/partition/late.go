package partition

import "time"

// A process that is stopped, or starved of CPU, finds when it goes on that leases and timeouts have ended, and has yet to read what
// consumers said in time: results and heartbeats wait in the buffers of their connections. If timers came first, a result that arrived
// within the lease would be refused, because its owner had stood still. So an end that is seen late waits a little, once, for what has
// arrived meanwhile. An end that is seen in time does not wait.

const (
	// seenInTime is how late a timer may be and count as in time. It is not exact, and need not be: a word that
	// arrives so shortly before the end races with the timer in any case, by its way through the network and the
	// hub. Longer, and what a halt of that length held up would be refused; shorter, and each end would wait
	// behind the timers and the collector of a busy process.
	seenInTime = 5 * time.Millisecond
	// readWithin is what a process needs at least, when it goes on, to read what has arrived, however short the
	// halt was. A connection holds no more than its window, 64 KiB unless it has grown: some hundred words, which
	// are read within a few milliseconds. The rest is for many connections, and for a machine that is short of CPU,
	// which is why it stood still; a longer halt adds its own length. Too long costs a run that is lost indeed
	// this much more before it goes elsewhere; too short refuses results that came in time.
	readWithin = 250 * time.Millisecond
)

// over is when the attempt in force ends if nothing more is heard of it.
func (e *entry) over() int64 { return earliest(e.lease, e.state.Run.Deadline) }

// waitsForWords reports whether the end of e's attempt, which has come, is put off because it was seen late: by as much as it was
// late, and the time to read, but no longer than until a consumer that lives has beaten.
func (m *Machine) waitsForWords(e *entry, now int64) bool {
	late := now - e.over()
	if e.putOff == 0 && late > int64(seenInTime) {
		e.putOff = now + min(late+int64(readWithin), int64(heartbeatInterval(m.jobOf(e).LeaseOrDefault())))
	}
	return now < e.putOff
}
