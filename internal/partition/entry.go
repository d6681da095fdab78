package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// place says where an entry waits.
type place uint8

const (
	idle    place = iota // waits for its timer
	ready                // due, in its queue's list
	aside                // due, but its concurrency key has no free permit
	blocked              // due, but a batch must be durable or a record read first
	running              // an attempt is in force
)

// entry is one record in memory.
type entry struct {
	ref   store.Ref
	state store.State
	spec  []byte        // nil: not read yet
	job   *carillon.Job // the decoded spec; nil until needed
	sched *schedule.Schedule

	parent    *entry            // of a pending run: its job; nil if that is not in memory
	children  int32             // of a job: its pending runs in memory
	slot      int32             // index in the ready list, or in the line
	unwritten carillon.Counters // counted, but not in a batch yet; see counters.go

	place    place
	fresh    bool // the spec must be written
	gone     bool // deleted; kept until the delete is durable
	recalled bool // it is parked in the store and in memory as well
	durable  bool // the attempt in force is durable
	first    bool // the attempt in force was written before it was handed out
	made     bool // the attempt in force was made in this term, not taken over
	waits    bool // the next scheduled time waits for the unfinished run; see overlaps

	timer   int    // index in Machine.timers; -1 = not armed
	seq     uint64 // the batch that holds the newest change
	held    uint64 // the batch that must be durable before the run is handed out
	content uint64 // the batch that holds the newest change of what its runs do; 0: that is durable
	later   int64  // the next scheduled time is held back until then for want of memory

	parkedIn *Queue // the queue it is parked in, if recalled
	queue    *Queue // of the attempt in force, or of its ready list
	line     *line  // in which it waits for a permit, or which sent it back to a ready list to get one
	readyAt  int64  // since when it has waited in a queue

	granted int64  // when the attempt in force was handed out
	since   uint64 // number of the batch that was being filled when the attempt was made
	lease   int64  // expiry as extended by heartbeats; state.Run.Lease is the stored one
	// The end of the attempt, noticed late, is put off until then; 0: it is not. See late.go.
	putOff          int64
	renewal         time.Duration // how far a heartbeat extends the lease; 0: not known yet
	pendingDelivery uint64        // number of its pending delivery; 0: it has been handed out
	limit           *Limit        // whose permit the attempt in force holds; nil: none
}

// dirty reports whether e has a change that is not durable yet.
func (m *Machine) dirty(e *entry) bool { return e.seq > m.out.durable }

// awaitsCommit reports whether e's run must not be handed out yet because what it depends on is not durable.
func (m *Machine) awaitsCommit(e *entry) bool { return e.held > m.out.durable }

// owner returns the job that e belongs to: e itself, or its parent. It is nil if a pending run's parent is
// not in memory.
func (e *entry) owner() *entry {
	if e.ref.Seq != 0 {
		return e.parent
	}
	return e
}

// specOf returns the encoded spec that e runs by; nil if it must be read first.
func (e *entry) specOf() []byte {
	if e.own() {
		return e.spec
	}
	if e.parent != nil {
		return e.parent.spec
	}
	return nil
}

// own reports whether e's record has a spec of its own. Jobs have one, and so do redriven runs, which keep
// their content.
func (e *entry) own() bool { return e.ref.Seq == 0 || e.state.OwnSpec }

// jobOf decodes the spec that e runs by, once. The caller must have made sure that the spec is in memory.
func (m *Machine) jobOf(e *entry) *carillon.Job {
	if !e.own() && e.parent != nil {
		return m.jobOf(e.parent)
	}
	if e.job == nil {
		j, err := codec.DecodeSpec(e.spec, e.ref.Key)
		if err != nil {
			// Only a damaged record gets here. It must not take the partition down.
			j = carillon.Job{Namespace: e.ref.Namespace, Name: e.ref.Name, Paused: true, Note: "damaged record: " + err.Error()}
		}
		e.job = &j
	}
	return e.job
}

// scheduleOf returns the parsed schedule of a recurring job. It is nil for a one-shot, and if the schedule
// can no longer be parsed.
func (m *Machine) scheduleOf(e *entry) *schedule.Schedule {
	if e.sched != nil {
		return e.sched
	}
	j := m.jobOf(e)
	if !j.Recurring() {
		return nil
	}
	key := scheduleKey{j.Schedule, j.TimeZone, j.DST}
	s, ok := m.schedules[key]
	if !ok {
		var err error
		if s, err = j.ParseSchedule(); err != nil {
			// It was valid when it was put; a time zone that was removed must stop the schedule, not the
			// node.
			return nil
		}
		if len(m.schedules) >= maxSharedSchedules {
			clear(m.schedules)
		}
		m.schedules[key] = s
	}
	e.sched = s
	return s
}

// maxSharedSchedules bounds the cache of parsed schedules.
const maxSharedSchedules = 4096

// unscheduled reports whether e is a recurring job whose schedule can no longer be parsed.
func (m *Machine) unscheduled(e *entry) bool { return m.scheduleOf(e) == nil && m.jobOf(e).Recurring() }

// ended reports whether a job has nothing left to do, so that it can be removed.
func (e *entry) ended() bool {
	return !e.state.Run.Live && e.state.Next == 0 && e.state.Pending == 0 && e.state.Backfills == 0
}

func toTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// fromTime returns t in UTC ns; 0 for the zero time.
func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// orTime returns ns as a time; the zero time for 0.
func orTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return toTime(ns)
}

// earliest returns the smaller of two instants, where 0 means none.
func earliest(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// setWake arms e's timer; 0 disarms it.
func (m *Machine) setWake(e *entry, at int64) {
	switch {
	case at != 0:
		m.timers.set(e, at)
	case e.timer >= 0:
		m.timers.drop(e)
	}
}

// rearm sets e's timer to the earliest thing that can happen to it without input.
func (m *Machine) rearm(e *entry) {
	switch {
	case e.gone || e.place == blocked || e.pendingDelivery != 0:
		m.setWake(e, 0)
	case e.place == ready || e.place == aside:
		m.setWake(e, m.overlapDue(e))
	case e.place == running:
		at := earliest(max(e.over(), e.putOff), m.overlapDue(e))
		if !e.durable {
			at = earliest(at, m.keepDue(e))
		}
		m.setWake(e, at)
	default:
		m.setWake(e, m.idleDue(e))
	}
}

// idleDue returns when something happens by itself to a record without an attempt in force. The due index
// holds this value.
func (m *Machine) idleDue(e *entry) int64 {
	s := &e.state
	switch {
	case s.Run.Live && s.Phase == carillon.PhaseStaged && e.isDapr():
		return m.overlapDue(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		return earliest(afterLife(s), m.overlapDue(e))
	case s.Run.Live:
		return earliest(s.Run.Due, m.overlapDue(e))
	case s.Next == 0: // it waits for its pending runs, if for anything
		return 0
	case s.Paused, s.Phase == carillon.PhaseWaiting:
		return afterLife(s)
	}
	return m.nextDue(e)
}

// nextDue returns when the next scheduled time is due; there must be one. Without the spec in memory it is a
// lower bound.
func (m *Machine) nextDue(e *entry) int64 {
	if e.spec == nil || e.state.Jitter == 0 {
		return e.state.Next
	}
	return m.timetableOf(e).due(e.state.Next)
}

// afterLife returns the first instant after the end of the job's life, which is inclusive; 0 if its life does
// not end.
func afterLife(s *store.State) int64 {
	if s.Expires == 0 {
		return 0
	}
	return s.Expires + 1
}
