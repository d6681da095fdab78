package partition

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// place says where a record in memory is. A due run goes from idle to running by way of the places where it
// waits:
//
//	       ┌► blocked ─┐
//	idle ──┼► ready ───┼──► idle ──► running ──► idle ──► gone
//	       └► aside ───┘
//
// It leaves each place by way of idle, which is where it is when it has just been taken out of a list. There
// is one exception: a blocked run is running as soon as a consumer proves that it has the attempt in doubt.
type place uint8

const (
	idle    place = iota // waits for its timer, or for another record
	ready                // due, in its queue's list
	aside                // due, but one of its limits has no free permit
	blocked              // due, but a batch must be durable or a record read first
	running              // an attempt is in force
	gone                 // deleted; kept until the delete is durable
)

// moves holds, for each place, those that a record can move to.
var moves = [...][gone + 1]bool{
	idle:    {idle: true, ready: true, aside: true, blocked: true, running: true, gone: true},
	ready:   {idle: true},
	aside:   {idle: true},
	blocked: {idle: true, blocked: true, running: true},
	running: {idle: true},
	gone:    {gone: true},
}

// move is the only way in which e's place changes.
func (e *entry) move(to place) {
	if !moves[e.place][to] {
		panic(fmt.Sprintf("partition: %v cannot move from place %d to %d", e.ref, e.place, to))
	}
	e.place = to
}

// queued reports whether e is in the list of a queue or of a line.
func (e *entry) queued() bool { return e.place == ready || e.place == aside }

// entry is one record in memory.
type entry struct {
	ref     store.Ref
	state   store.State
	spec    []byte        // nil: not read yet
	decoded *carillon.Job // the decoded spec; nil until needed
	sched   *schedule.Schedule

	parent    *entry             // of a pending run: its job; nil if that is not in memory
	children  int32              // of a job: its pending runs in memory
	slot      int32              // index in the ready list, or in the line
	unwritten *carillon.Counters // counted, but not in a batch yet, see counters.go; nil: nothing

	timer   int32 // index in agenda.timers; -1 = not armed
	place   place
	fresh   bool // the spec must be written
	overdue bool // in its queue it waits in the list of overdue runs
	serial  bool // the next scheduled time waits for the unfinished run; see agenda.serial

	seq     uint64 // the batch that holds the newest change
	held    uint64 // the batch that must be durable before the run is handed out
	content uint64 // the batch that holds the newest change of what its runs do; 0: that is durable
	later   int64  // the next scheduled time is held back until then for want of memory

	parkedIn *delivery.Queue // the queue that the store has it parked in, while it is in memory as well
	queue    *delivery.Queue // of the attempt in force, or of its ready list
	line     *line           // in which it waits for a permit, or which sent it back to a ready list to get one
	readyAt  int64           // since when it has waited in a queue

	// Limits of which it holds a permit: for the attempt in force; or, while it waits in the line of one limit,
	// those that come before that one.
	permits *permits
	attempt attempt // in force; zero if there is none
}

// attempt is what is known of an attempt in force beside the state of its run.
type attempt struct {
	origin  origin
	known   bool // the store has been told of it, though perhaps not of its present end
	current bool // and need not be told again unless a heartbeat moves its end
	told    bool // watchers have been told if it began late
	late    bool // it was counted as late; not known of one that was taken over
	counted bool // as one that a consumer at a broker completes; see awaited.go
	awaited bool // only a report or its timeout concerns it now, so its spec is not kept; see contents.lighten

	granted int64  // when it was handed out
	since   uint64 // number of the batch that was being filled when it was made; 0: taken over
	lease   int64  // expiry as extended by heartbeats; state.Run.Lease is the stored one
	// Its end, noticed late, is put off until then; 0: it is not. See late.go.
	putOff  int64
	renewal time.Duration // how far a heartbeat extends the lease; 0: not known yet
	pending uint64        // number of its pending delivery; 0: it has been handed out
}

// origin says how this term came to an attempt in force.
type origin uint8

const (
	takenOver    origin = iota // the store knew of it
	acknowledged               // it was in doubt, and a consumer has proved that it has it
	handedOut                  // this term made it, perhaps for the second time
)

// attemptWritten reports whether the store may know of the attempt in force.
func (e *entry) attemptWritten() bool {
	return e.attempt.known || e.seq >= e.attempt.since // the last case: another change had it written
}

// phase returns what e does: the phase that callers see, and that the store files it under.
func (e *entry) phase() carillon.Phase {
	s := &e.state
	switch {
	case e.place == running:
		return carillon.PhaseRunning
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		return carillon.PhaseStaged
	case s.Run.Live && s.Run.Attempt > 0:
		return carillon.PhaseRetrying
	case s.Run.Live:
		return carillon.PhaseReady
	case s.Paused:
		return carillon.PhasePaused
	case s.Phase == carillon.PhaseWaiting:
		return carillon.PhaseWaiting
	}
	return carillon.PhaseScheduled
}

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
// their content, and runs that were triggered with other data.
func (e *entry) own() bool { return e.ref.Seq == 0 || e.state.OwnSpec }

// job decodes the spec that e runs by, once. The caller must have made sure that the spec is in memory.
func (e *entry) job() *carillon.Job {
	if !e.own() && e.parent != nil {
		return e.parent.job()
	}
	if e.decoded == nil {
		j, err := codec.DecodeSpec(e.spec, e.ref.Key)
		if err != nil {
			// Only a damaged record gets here. It must not take the partition down.
			j = carillon.Job{Namespace: e.ref.Namespace, Name: e.ref.Name, Paused: true,
				Note: "damaged record: " + err.Error()}
		}
		e.decoded = &j
	}
	return e.decoded
}

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

// expired reports whether a run of e that has begun must not go on at an instant because e's life has ended.
func (e *entry) expired(at int64) bool {
	return e.state.Expires != 0 && at > e.state.Expires && !e.traits().outlivesJob
}

// afterLife returns the first instant after the end of the job's life, which is inclusive; 0 if its life does
// not end.
func afterLife(s *store.State) int64 {
	if s.Expires == 0 {
		return 0
	}
	return s.Expires + 1
}
