package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// place is where an entry is kept.
type place uint8

const (
	idle    place = iota // waits for its time
	ready                // due, in its queue's list
	aside                // due, but its limit has no free token
	blocked              // due, but something must be durable or read first
	running              // an attempt is in force
)

// entry is one record in memory.
type entry struct {
	ref   store.Ref
	state store.State
	spec  []byte        // nil: not read yet
	job   *carillon.Job // decoded spec; nil until needed
	sched *schedule.Schedule

	parent   *entry            // of a pending run: its job
	children int32             // of a job: its pending runs in memory
	slot     int32             // index in the queue's list
	unsaid   carillon.Counters // counted, and not in a batch; see counters.go

	place    place
	fresh    bool // the spec must be written
	gone     bool // deleted; kept until that is durable
	recalled bool // the store has it as parked
	durable  bool // whether the grant is in the state as stored
	first    bool // the attempt in force was written before it was handed out
	made     bool // the attempt in force was made in this term; otherwise it was taken over
	waits    bool // the next scheduled time is known to wait for the unfinished run; see overlaps

	timer   int    // index in Machine.timers; -1 = not armed
	seq     uint64 // the batch that holds the newest change
	held    uint64 // the batch that must be durable before its run is handed out
	content uint64 // the batch that holds the newest change of what its runs do; 0 = a durable one
	later   int64  // until when the next scheduled time is held back for want of memory

	parkedIn *Queue // where, if recalled
	queue    *Queue // of the attempt in force or the place in a ready list
	line     *line  // in which it waits for a token, or for which it tries its luck in a ready list
	readyAt  int64  // since when it waits in a queue

	granted         int64         // when the attempt in force was handed out
	since           uint64        // the batch that filled when it was granted
	lease           int64         // expiry as renewed by heartbeats; state.Run.Lease is what is stored
	putOff          int64         // until when its end waits, which was seen late; 0 = it was not. See late.go
	renewal         time.Duration // what a heartbeat extends the lease to; 0 = not known yet
	pendingDelivery uint64        // it has not been handed out yet: the pledge's number
	limit           *Limit        // of which the attempt in force holds a token; nil = none
}

// dirty reports whether e has a change that is not durable yet.
func (m *Machine) dirty(e *entry) bool { return e.seq > m.out.durable }

// awaitsCommit reports whether e's run must not be handed out yet, because what it goes by is not durable.
func (m *Machine) awaitsCommit(e *entry) bool { return e.held > m.out.durable }

// owner is the job that e belongs to: itself, or its parent. Nil if a pending run's parent is not in memory.
func (e *entry) owner() *entry {
	if e.ref.Seq != 0 {
		return e.parent
	}
	return e
}

// specOf is the encoded spec that e runs by; nil if it must be read first.
func (e *entry) specOf() []byte {
	if e.own() {
		return e.spec
	}
	if e.parent != nil {
		return e.parent.spec
	}
	return nil
}

// own reports whether e's record has a spec: that of a job, and of a run that was redriven, which keeps its content.
func (e *entry) own() bool { return e.ref.Seq == 0 || e.state.OwnSpec }

// jobOf decodes the spec that e runs by, once. The caller has seen to it that there is one.
func (m *Machine) jobOf(e *entry) *carillon.Job {
	if !e.own() && e.parent != nil {
		return m.jobOf(e.parent)
	}
	if e.job == nil {
		j, err := store.DecodeSpec(e.spec, e.ref.Key)
		if err != nil {
			// Only a damaged record gets here; it must not take the partition down with it.
			j = carillon.Job{Namespace: e.ref.Namespace, Name: e.ref.Name, Paused: true, Note: "damaged record: " + err.Error()}
		}
		e.job = &j
	}
	return e.job
}

// scheduleOf is the parsed schedule of a recurring job; nil for a one-shot.
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
			return nil // it was valid when it was put; a zone that has gone stops the schedule, not the node
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

// unscheduled reports whether a recurring job has a schedule that cannot be read any more.
func (m *Machine) unscheduled(e *entry) bool { return m.scheduleOf(e) == nil && m.jobOf(e).Recurring() }

// nextAfter is the schedule's first time after t, 0 if there is none within the job's life.
func (m *Machine) nextAfter(e *entry, t int64) int64 {
	s := m.scheduleOf(e)
	if s == nil {
		return 0
	}
	if limit := carillon.EffectiveRepeats(m.jobOf(e), s); limit > 0 && e.state.Begun >= limit {
		return 0
	}
	next, ok := s.Next(toTime(t), toTime(e.state.Anchor))
	if !ok || !carillon.Storable(next) || (e.state.Expires != 0 && next.UnixNano() > e.state.Expires) {
		return 0
	}
	return next.UnixNano()
}

// ended reports whether nothing more can become of a job.
func (e *entry) ended() bool {
	return !e.state.Run.Live && e.state.Next == 0 && e.state.Pending == 0 && e.state.Backfills == 0
}

func toTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// fromTime is t in nanoseconds, 0 for the zero time.
func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// orTime is the time of ns, the zero time for 0.
func orTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return toTime(ns)
}

// earliest is the smaller of two instants of which 0 means none.
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

// rearm sets the timer to the earliest of what can happen next to e by itself.
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

// idleDue is when something happens to a record by itself that has no attempt in force: what its due index holds.
func (m *Machine) idleDue(e *entry) int64 {
	s := &e.state
	switch {
	case s.Run.Live && s.Phase == carillon.PhaseStaged && e.isDapr():
		return m.overlapDue(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		return earliest(afterLife(s), m.overlapDue(e))
	case s.Run.Live:
		return earliest(s.Run.Due, m.overlapDue(e))
	case s.Next == 0: // it waits for its pending runs at most
		return 0
	case s.Paused, s.Phase == carillon.PhaseWaiting:
		return afterLife(s)
	}
	return m.nextDue(e)
}

// nextDue is when the next scheduled time, of which there is one, is due; its lower bound while the spec is not in memory.
func (m *Machine) nextDue(e *entry) int64 {
	if e.spec == nil {
		return e.state.Next
	}
	return e.state.Next + m.jitter(e, e.state.Next)
}

// afterLife is the first instant after the end of life, which is inclusive; 0 if there is no end.
func afterLife(s *store.State) int64 {
	if s.Expires == 0 {
		return 0
	}
	return s.Expires + 1
}
