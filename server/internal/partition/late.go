package partition

import "time"

// A process that was stopped or starved of CPU finds, when it goes on, that leases and timeouts have ended.
// It has yet to read the results and heartbeats that consumers sent in time, which wait in the buffers of
// their connections. If timers came first, a result that arrived within the lease would be refused because
// its owner had stood still. So an end that is noticed late is put off once, for a short while, until what
// has arrived is read. An end that is noticed in time is not put off.

const (
	// seenInTime is how late a timer may fire and still count as in time. It need not be exact: a report that
	// arrives so shortly before the end races with the timer anyway, on its way through the network and the
	// hub. If it were longer, reports that were held up by a halt of that length would be refused. If it were
	// shorter, every end would wait behind the timers and the garbage collector of a busy process.
	seenInTime = 5 * time.Millisecond
	// readWithin is how long a process needs at least, when it goes on, to read what has arrived, however
	// short the halt was. A connection buffers no more than its flow-control window, 64 KiB unless it has
	// grown: some hundred reports, which are read within a few milliseconds. The rest allows for many
	// connections, and for a machine that is short of CPU, which is why the process stood still. A longer
	// halt adds its own length. If readWithin is too long, a run that is indeed lost is retried that much
	// later; if it is too short, results that came in time are refused.
	readWithin = 250 * time.Millisecond
)

// over returns when the attempt in force ends if nothing more is heard of it.
func (e *entry) over() int64 { return earliest(e.attempt.lease, e.state.Run.Deadline) }

// putsOff reports whether the end of e's attempt, which has come, is put off because it was noticed
// late. It is put off by as much as it was late plus readWithin, but by no more than a heartbeat interval: a
// live consumer has sent one by then.
func (e *entry) putsOff(now int64) bool {
	late := now - e.over()
	if e.attempt.putOff == 0 && late > int64(seenInTime) {
		e.attempt.putOff = now + min(late+int64(readWithin), int64(heartbeatInterval(e.job().LeaseOrDefault())))
	}
	return now < e.attempt.putOff
}
