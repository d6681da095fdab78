package worker

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// Bounds on one message; a server accepts 4 MiB.
const (
	maxMessageItems = 4096
	maxMessageBytes = 1 << 20
	itemBytes       = 256 // approximate size of a result or heartbeat without its text
)

// outgoing returns what is to be sent through the current session, as much as fits into one message, and when
// to call it again (zero: not before there is more). Results go first: they make room.
func (d *inFlight) outgoing(now time.Time) (req carillon.WorkRequest, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.nextHeartbeat.IsZero() && !now.Before(d.nextHeartbeat) {
		d.heartbeat(&req, now)
	}
	d.takeResults(&req, now)
	next = d.takeProgress(&req, now)
	if !d.leaving {
		for _, q := range d.queues {
			if n := q.limit - q.held - q.granted; n > 0 {
				q.granted += n
				req.Credits = append(req.Credits, carillon.Credit{Queue: q.name, N: n})
			}
		}
	}
	if len(d.results) > 0 {
		signal(d.wake)
	}
	req.Pong, d.pinged = d.pinged, false
	return req, earlier(next, d.nextHeartbeat)
}

// heartbeat adds the heartbeats that are due. Those that will be due soon are added, too, so that many
// attempts share one message. For an attempt that has ended, its result is sent again instead.
func (d *inFlight) heartbeat(req *carillon.WorkRequest, now time.Time) {
	d.nextHeartbeat = time.Time{}
	for _, a := range d.attempts {
		soon := now.Add(a.heartbeatEach / 4)
		if !a.heartbeatAt.After(soon) && len(req.Heartbeats) < maxMessageItems {
			if a.phase == ended {
				d.queueResult(a)
			} else {
				a.lease.ask(now)
				req.Heartbeats = append(req.Heartbeats,
					carillon.Heartbeat{Token: a.run.Token, RunID: a.run.ID, Confirm: a.lease.asking})
			}
			a.heartbeatAt = now.Add(a.heartbeatEach)
		}
		d.nextHeartbeat = earlier(d.nextHeartbeat, a.heartbeatAt)
	}
}

// takeResults adds results, oldest first.
func (d *inFlight) takeResults(req *carillon.WorkRequest, now time.Time) {
	if len(d.results) == 0 {
		return
	}
	n, bytes := 0, len(req.Heartbeats)*itemBytes
	req.Results = make([]carillon.Result, 0, min(len(d.results), maxMessageItems))
	for _, a := range d.results {
		if n == maxMessageItems || bytes > maxMessageBytes {
			break
		}
		n++
		a.queued = false
		if d.attempts[a.run.Token] != a {
			continue // acknowledged or dropped meanwhile
		}
		a.heartbeatAt = now.Add(a.heartbeatEach)
		bytes += itemBytes + len(a.result.Message) + len(a.result.Response)
		req.Results = append(req.Results, a.result)
	}
	d.results = slices.Delete(d.results, 0, n)
}

// isEmpty reports whether a request is empty.
func isEmpty(req *carillon.WorkRequest) bool {
	return len(req.Results) == 0 && len(req.Heartbeats) == 0 && len(req.Credits) == 0 &&
		!req.Goodbye && !req.Pong
}
