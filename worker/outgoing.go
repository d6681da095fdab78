package worker

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// How much goes into one message: a server takes 4 MiB.
const (
	maxMessageItems = 4096
	maxMessageBytes = 1 << 20
	itemBytes       = 256 // about what a result or a beat takes beside its text
)

// outgoing is what is to be said to the current session, as much as fits into one message, and when to ask again by itself
// (zero: not before the bell rings). Results go first: they make room.
func (d *desk) outgoing(now time.Time) (req carillon.WorkRequest, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.nextBeat.IsZero() && !now.Before(d.nextBeat) {
		d.beat(&req, now)
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
		ring(d.bell)
	}
	req.Pong, d.pinged = d.pinged, false
	if next.IsZero() || !d.nextBeat.IsZero() && d.nextBeat.Before(next) {
		next = d.nextBeat
	}
	return req, next
}

// beat says that the attempts whose time has come are alive. Those that will be due soon come along, so that a crowd beats
// together. The beat of an attempt that has ended is its result, once more.
func (d *desk) beat(req *carillon.WorkRequest, now time.Time) {
	d.nextBeat = time.Time{}
	for _, a := range d.attempts {
		soon := now.Add(a.beatEach / 4)
		if !a.beatAt.After(soon) && len(req.Beats) < maxMessageItems {
			if a.ended {
				d.list(a)
			} else {
				a.lease.ask(now)
				req.Beats = append(req.Beats, carillon.Beat{Token: a.run.Token, RunID: a.run.ID, Confirm: a.lease.asking})
			}
			a.beatAt = now.Add(a.beatEach)
		}
		if d.nextBeat.IsZero() || a.beatAt.Before(d.nextBeat) {
			d.nextBeat = a.beatAt
		}
	}
}

// takeResults takes results that are to be sent, in the order in which they came.
func (d *desk) takeResults(req *carillon.WorkRequest, now time.Time) {
	if len(d.results) == 0 {
		return
	}
	n, bytes := 0, len(req.Beats)*itemBytes
	req.Results = make([]carillon.Result, 0, min(len(d.results), maxMessageItems))
	for _, a := range d.results {
		if n == maxMessageItems || bytes > maxMessageBytes {
			break
		}
		n++
		a.listed = false
		if d.attempts[a.run.Token] != a {
			continue // acknowledged, or dropped, meanwhile
		}
		a.beatAt = now.Add(a.beatEach)
		bytes += itemBytes + len(a.result.Message) + len(a.result.Response)
		req.Results = append(req.Results, a.result)
	}
	d.results = slices.Delete(d.results, 0, n)
}

// silent reports whether a request says nothing.
func silent(req *carillon.WorkRequest) bool {
	return len(req.Results) == 0 && len(req.Beats) == 0 && len(req.Credits) == 0 && !req.Goodbye && !req.Pong
}
