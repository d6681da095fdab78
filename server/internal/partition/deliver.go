package partition

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// grant makes the next attempt of e's run.
func (a *Attempts) grant(e *entry, q delivery.Queue, now int64) delivery.Delivery {
	j, s := e.job(), &e.state
	r := &s.Run
	a.enter(e, handedOut, now)
	id := s.Identity(a.cfg.Partition)
	timeout := j.TimeoutOrDefault()
	d := delivery.Delivery{
		Partition: a.cfg.Partition, Queue: q, Target: j.Target, Timeout: timeout, StoreAway: a.due.queues.away,
		Run: &carillon.Run{
			ID: id.String(), Namespace: e.ref.Namespace, Job: e.ref.Name, Cause: r.Cause, Status: carillon.RunRunning,
			Scheduled: toTime(r.Scheduled), Due: toTime(r.Due), Attempt: r.Attempt, Started: toTime(now),
			Token: a.tokenOf(e), Queue: q.Address, Deadline: toTime(now + int64(timeout)), Lease: j.LeaseOrDefault(),
			Data: j.Data, Metadata: j.Metadata, Backfill: backfillOf(id), InDoubt: int(r.InDoubt),
		},
	}
	a.traced(e, &d)
	if d.StoreAway && e.traits().heartbeats { // others say it in their own way
		d.Run.Metadata = maps.Clone(d.Run.Metadata)
		if d.Run.Metadata == nil {
			d.Run.Metadata = map[string]string{}
		}
		d.Run.Metadata[delivery.StoreKey] = delivery.StoreIsAway
	}
	return d
}

// enter puts the next attempt of e's run in force.
func (a *Attempts) enter(e *entry, from origin, now int64) {
	r := &e.state.Run
	r.Attempt++
	r.Percent, r.Message, r.ReportedAt, r.Kept = 0, "", 0, false
	r.Grant = a.grantOf(e)
	if r.Started == 0 {
		r.Started = now
	}
	e.countAttempt()
	a.startClocks(e, now)
	e.state.Phase, e.state.Queue = carillon.PhaseRunning, ""
	a.begin(e, from)
}

// tokenOf returns the token of the attempt in force. It is needed twice at most, so it is not kept.
func (a *Attempts) tokenOf(e *entry) string {
	r := &e.state.Run
	return a.signer.Sign(message.Token{Grant: r.Grant, Run: e.state.Identity(a.cfg.Partition),
		Attempt: r.Attempt})
}

// startClocks sets when the attempt ends if nothing is heard of it: its timeout and its lease.
func (a *Attempts) startClocks(e *entry, now int64) {
	j := e.job()
	r := &e.state.Run
	r.Deadline = now + int64(j.TimeoutOrDefault())
	e.attempt.renewal = j.LeaseOrDefault()
	e.attempt.lease, e.attempt.granted, e.attempt.putOff = now+int64(e.attempt.renewal), now, 0
	if e.queue == nil {
		return
	}
	if t := traitsOf(e.queue.Kind); !t.heartbeats {
		r.Deadline += int64(t.timeoutGrace)
		e.attempt.lease = r.Deadline
	}
}

// begun notes that the attempt is on its way to a consumer. It ends with a report, or when its lease or
// timeout does.
func (a *Attempts) begun(e *entry, d *delivery.Delivery, now int64) {
	if a.cfg.Events.Fired != nil {
		a.cfg.Events.Fired(delivery.Fired{Queue: d.Queue, Attempt: e.state.Run.Attempt,
			Retry: e.granted().Retried > 0, Lateness: time.Duration(now - e.lateFrom(now)), Trace: d.Trace})
	}
	if d.Target.AwaitsCompletion() {
		a.awaiting.add(e)
	}
	a.agenda.rearm(e)
	a.contents.lighten(e)
}

// contentGeneration returns the generation of the content that e runs by: its job's, or its own.
func (e *entry) contentGeneration() uint64 {
	if o := e.owner(); o != nil && !e.own() {
		return o.state.Generation
	}
	return e.state.Generation
}

// stop tells the consumer of the attempt in force to stop it.
func (a *Attempts) stop(e *entry) {
	if e.place != running || e.attempt.pending != 0 {
		return
	}
	q := e.queue
	if q == nil { // it was taken over without its spec
		q = new(e.targetQueue())
	}
	a.cancels = append(a.cancels, delivery.Cancel{Queue: *q, Token: a.tokenOf(e)})
}

// stopUnheard is stop for an attempt that ends because nothing was heard of it in time.
func (a *Attempts) stopUnheard(e *entry) {
	n := len(a.cancels)
	a.stop(e)
	for i := n; i < len(a.cancels); i++ {
		a.cancels[i].Unheard = true
	}
}

// targetQueue returns the queue of e's target; the zero queue if the spec is not in memory.
func (e *entry) targetQueue() delivery.Queue {
	if e.specOf() == nil {
		return delivery.Queue{}
	}
	return delivery.QueueOf(e.ref.Namespace, e.job().Target)
}

// KeepAll makes every attempt in force durable as it stands, before the owner leaves. Attempts that have
// not been handed out are withdrawn. After that the term has ended in order.
func (a *Attempts) KeepAll() {
	a.EndInOrder()
	a.withdrawAll()
	a.due.permits.ForgoKept("")
	for _, e := range a.all() {
		a.keep(e)
	}
}

// all returns the attempts in force, ordered by ref.
func (a *Attempts) all() []*entry {
	var held []*entry
	for _, e := range a.records.live {
		if e.place == running {
			held = append(held, e)
		}
	}
	slices.SortFunc(held, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	return held
}

// HandOver is [Attempts.KeepAll] for an owner that gives the partition to another node and keeps its
// consumers. It will relay what their streams report, so the next owner need not withdraw at once the
// attempts that end with their streams.
func (a *Attempts) HandOver(now int64) {
	a.KeepAll()
	for _, e := range a.records.live {
		if e.place != running || !e.traits().endsWithStream {
			continue
		}
		if !e.state.Run.Kept { // its stream lasts
			e.state.Run.Kept, e.state.Run.Lease = true, now+int64(keptFor)
		}
	}
}

// Handed is an attempt that a consumer has.
type Handed struct {
	delivery.Cancel
	Until   int64 // when it ends at the latest, UTC ns
	Here    bool  // this term has handed it out, or heard of it
	Written bool  // the store may know of it. If not, the next owner hands its run out again
	// Critical: its job is.
	Critical bool
}

// Handed returns the attempts that consumers have, ordered by ref. It also returns attempts that one consumer
// has answered and others may still have, while the outcome of that answer is not durable.
func (a *Attempts) Handed() []Handed {
	var out []Handed
	for _, e := range a.all() {
		q := e.targetQueue()
		if e.queue != nil {
			q = *e.queue
		}
		// Without a queue it was handed out before this term, and nothing is known of it.
		if e.attempt.pending == 0 && q != (delivery.Queue{}) {
			c := delivery.Cancel{Queue: q, Token: a.tokenOf(e)}
			out = append(out, Handed{Cancel: c, Until: e.state.Run.Deadline, Here: e.attempt.origin != takenOver,
				Written: e.attemptWritten(), Critical: e.state.Priority == critical})
		}
	}
	for i := range a.duplicates {
		out = append(out, Handed{Cancel: a.duplicates[i].Cancel, Until: a.duplicates[i].until,
			Here: true, Written: true})
	}
	return out
}
