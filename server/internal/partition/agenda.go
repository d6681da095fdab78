package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/store"
)

// agenda knows when each record in memory does something by itself.
type agenda struct {
	contents *contents
	timers   heaps.Of[timer]
	ticked   int64 // when Tick was called last
}

// set arms e's timer; 0 disarms it.
func (g *agenda) set(e *entry, at int64) {
	switch {
	case at == 0:
		g.timers.Remove(timer{e: e})
	case e.timer < 0:
		g.timers.Add(timer{at, e})
	case at != g.timers[e.timer].wake:
		g.timers[e.timer].wake = at
		g.timers.Fix(e.timer)
	}
}

// rearm sets e's timer to the earliest thing that can happen to it without input.
func (g *agenda) rearm(e *entry) {
	switch {
	case e.place == gone || e.place == blocked || e.attempt.pending != 0:
		g.set(e, 0)
	case e.queued():
		g.set(e, g.overlapDue(e))
	case e.place == running:
		at := earliest(max(e.over(), e.attempt.putOff), g.overlapDue(e))
		if !e.attempt.current {
			at = earliest(at, g.keepDue(e))
		}
		g.set(e, at)
	default:
		g.set(e, g.idleDue(e))
	}
}

// idleDue returns when something happens by itself to a record without an attempt in force. The due index
// holds this value.
func (g *agenda) idleDue(e *entry) int64 {
	s := &e.state
	switch {
	case s.Run.Live && s.Phase == carillon.PhaseStaged && e.traits().outlivesJob:
		return g.overlapDue(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		return earliest(afterLife(s), g.overlapDue(e))
	case s.Run.Live:
		return earliest(s.Run.Due, g.overlapDue(e))
	case s.Next == 0: // it waits for its pending runs, if for anything
		return 0
	case s.Paused, s.Phase == carillon.PhaseWaiting:
		return afterLife(s)
	}
	return g.contents.nextDue(e)
}

// keepDue returns when e's attempt is next old enough to be made durable: after each multiple of grantAfter.
func (g *agenda) keepDue(e *entry) int64 {
	const after = int64(grantAfter)
	return e.attempt.granted + after*(1+max(0, g.ticked-e.attempt.granted)/after)
}

// file sets the parts of the state that the store's indexes are built from.
func (g *agenda) file(e *entry) {
	s := &e.state
	if s.Phase = e.phase(); s.Phase != carillon.PhaseStaged {
		s.Queue = ""
	}
	switch {
	case e.place != running:
		s.Due = g.idleDue(e)
	case e.traits().endsWithStream:
		s.Due = s.Run.Due // a new owner must find it at once, to withdraw it
	default:
		s.Due = earliest(earliest(s.Run.Lease, s.Run.Deadline), g.overlapDue(e))
	}
}

// record returns e as the store keeps it.
func (g *agenda) record(e *entry) store.Record {
	g.file(e)
	r := store.Record{Ref: e.ref, Exists: true, State: e.state}
	r.State.Counters = e.writtenCounts()
	switch {
	case e.fresh:
		r.Spec = e.spec
	case e.own() && len(e.spec) <= InlineSpec:
		r.Kept = e.spec
	}
	return r
}
