package partition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// httpGrace is how long after an HTTP attempt's timeout the machine itself declares it lost. Until then the
// HTTP target's consumer reports the timeout itself, and more precisely.
const httpGrace = 5 * time.Second

// Deliver hands out at most n due runs of a queue as attempts; the caller has n free slots for them. If first
// is set, or the run's concurrency key is limited, the attempt is made durable before it comes out of
// Granted, and its slot stays taken until then. spare is the number of slots that were not used because fewer
// runs wait that may begin.
func (m *Machine) Deliver(now int64, q Queue, n int, first bool) (ds []Delivery, spare int) {
	st := m.queues[q]
	if st == nil || n <= 0 {
		return nil, max(0, n)
	}
	ds = make([]Delivery, 0, min(n, st.len()))
	for n > 0 {
		rank := st.next(now)
		if rank < 0 {
			break
		}
		e := st.lists[rank][0]
		line, ok := m.takePermit(e)
		m.dequeue(e)
		if !ok {
			m.setAside(e, line)
			continue
		}
		n--
		d := m.grant(e, q, now)
		if first || e.limit != nil {
			m.deliverWhenDurable(e, d, now)
			continue
		}
		m.begun(e, q, now)
		ds = append(ds, d)
	}
	return ds, n
}

// grant makes the next attempt of e's run.
func (m *Machine) grant(e *entry, q Queue, now int64) Delivery {
	j, s := m.jobOf(e), &e.state
	r := &s.Run
	r.Attempt++
	r.Percent, r.Message, r.Said, r.Kept = 0, "", 0, false
	r.Grant = m.grantOf(e)
	if r.Started == 0 {
		r.Started = now
	}
	e.countAttempt()
	m.startClocks(e, now)
	s.Phase, s.Queue = carillon.PhaseRunning, ""
	e.place, e.durable, e.first, e.since = running, false, false, m.out.seq
	e.made = true
	m.grants++
	id := s.Identity(m.cfg.Partition)
	timeout := j.TimeoutOrDefault()
	return Delivery{
		Partition: m.cfg.Partition, Queue: q, Target: j.Target, Timeout: timeout, Key: concurrencyKey(&j.Target),
		Run: &carillon.Run{
			ID: id.String(), Namespace: e.ref.Namespace, Job: e.ref.Name, Cause: r.Cause, Status: carillon.RunRunning,
			Scheduled: toTime(r.Scheduled), Due: toTime(r.Due), Attempt: r.Attempt, Started: toTime(now),
			Token: m.tokenOf(e), Queue: q.Address, Deadline: toTime(now + int64(timeout)), Lease: j.LeaseOrDefault(),
			Data: j.Data, Metadata: j.Metadata, Backfill: backfillOf(id), InDoubt: r.InDoubt,
		},
	}
}

// tokenOf returns the token of the attempt in force. It is needed twice at most, so it is not kept.
func (m *Machine) tokenOf(e *entry) string {
	r := &e.state.Run
	return m.signer.Sign(Token{Grant: r.Grant, Run: e.state.Identity(m.cfg.Partition), Attempt: r.Attempt})
}

// startClocks sets when the attempt ends if nothing is heard of it: its timeout and its lease.
func (m *Machine) startClocks(e *entry, now int64) {
	j := m.jobOf(e)
	r := &e.state.Run
	r.Deadline = now + int64(j.TimeoutOrDefault())
	e.renewal = j.LeaseOrDefault()
	e.lease, e.granted, e.putOff = now+int64(e.renewal), now, 0
	switch {
	case e.queue == nil:
	case e.queue.Kind == "http":
		r.Deadline += int64(httpGrace)
		e.lease = r.Deadline
	// There are no heartbeats: the end of the stream tells which attempts are lost.
	case e.queue.Kind == "dapr":
		e.lease = r.Deadline
	}
}

// begun notes that the attempt is on its way to a consumer. It ends with a report, or when its lease or
// timeout does.
func (m *Machine) begun(e *entry, q Queue, now int64) {
	if m.cfg.Events.Fired != nil {
		m.cfg.Events.Fired(Fired{Queue: q, Attempt: e.state.Run.Attempt, Retry: granted(&e.state.Run).Retried > 0, Lateness: e.lateness(now)})
	}
	m.rearm(e)
	m.lighten(e)
}

// lateness returns how late the attempt that is handed out now begins. A job that was put with a due time in
// the past was not late before it was put.
func (e *entry) lateness(now int64) time.Duration {
	due := e.state.Run.Due
	if e.ref.Seq == 0 { // a pending run is created when it is due
		due = max(due, e.state.Updated)
	}
	return time.Duration(now - due)
}

// generation returns the generation of the content that e runs by: its job's, or its own.
func (m *Machine) generation(e *entry) uint64 {
	if o := e.owner(); o != nil && !e.own() {
		return o.state.Generation
	}
	return e.state.Generation
}

// leave takes e out of the attempts in force. If a report ended the attempt, its grant is kept, so that the
// same report sent again gets the same answer. Otherwise only the grant's generation is kept, which a redrive
// must exceed.
func (m *Machine) leave(e *entry, reported bool) {
	m.letGo(e)
	e.place = idle
	if !reported {
		e.state.Run.Grant.Term = store.Term{}
	}
}

// letGo drops everything an attempt in force holds: its count, its pending delivery, its permit, and its
// doubt.
func (m *Machine) letGo(e *entry) {
	m.grants--
	e.state.Run.Doubt = store.Grant{}
	e.pendingDelivery = 0
	m.returnPermitOnceEnded(e)
}

// stop tells the consumer of the attempt in force to stop it.
func (m *Machine) stop(e *entry) {
	if e.place != running || e.pendingDelivery != 0 {
		return
	}
	q := e.queue
	if q == nil { // it was taken over without its spec
		q = new(m.queueOf(e))
	}
	m.cancels = append(m.cancels, Cancel{Queue: *q, Token: m.tokenOf(e), RunID: e.state.Identity(m.cfg.Partition).String()})
}

// stopUnheard is stop for an attempt that ends because nothing was heard of it in time.
func (m *Machine) stopUnheard(e *entry) {
	n := len(m.cancels)
	m.stop(e)
	for i := n; i < len(m.cancels); i++ {
		m.cancels[i].Unheard = true
	}
}

// queueOf returns the queue of e's target; the zero queue if the spec is not in memory.
func (m *Machine) queueOf(e *entry) Queue {
	if e.specOf() == nil {
		return Queue{}
	}
	return QueueOf(e.ref.Namespace, m.jobOf(e).Target)
}

// KeepGrants makes every attempt in force durable as it stands, before the owner leaves. Attempts that have
// not been handed out are withdrawn. After that the term has ended in order.
func (m *Machine) KeepGrants() {
	m.EndInOrder()
	m.withdrawAll()
	var held []*entry
	for _, e := range m.live {
		if e.place == running {
			held = append(held, e)
		}
	}
	slices.SortFunc(held, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	for _, e := range held {
		m.keepGrant(e)
	}
}

// HandOver is [Machine.KeepGrants] for an owner that gives the partition to another node and keeps its
// consumers. It will relay what their streams report, so the next owner need not withdraw the attempts of
// Dapr's jobs at once.
func (m *Machine) HandOver() {
	m.KeepGrants()
	for _, e := range m.live {
		if e.place == running && e.isDapr() {
			e.state.Run.Kept = true
		}
	}
}

// Handed is an attempt that a consumer has.
type Handed struct {
	Cancel
	Until   int64 // when it ends at the latest, UTC ns
	Here    bool  // this term has handed it out, or heard of it
	Written bool  // the store may know of it. If not, the next owner hands its run out again
}

// Handed returns the attempts that consumers have, ordered by ref. It also returns attempts that one consumer
// has answered and others may still have, while the outcome of that answer is not durable.
func (m *Machine) Handed() []Handed {
	var held []*entry
	for _, e := range m.live {
		if e.place == running && e.pendingDelivery == 0 {
			held = append(held, e)
		}
	}
	slices.SortFunc(held, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	var out []Handed
	for _, e := range held {
		q := m.queueOf(e)
		if e.queue != nil {
			q = *e.queue
		}
		if q != (Queue{}) { // otherwise it was handed out before this term and nothing is known of it
			c := Cancel{Queue: q, Token: m.tokenOf(e), RunID: e.state.Identity(m.cfg.Partition).String()}
			out = append(out, Handed{Cancel: c, Until: e.state.Run.Deadline, Here: e.since != 0,
				Written: e.durable || e.first || e.seq >= e.since})
		}
	}
	for i := range m.others {
		out = append(out, Handed{Cancel: m.others[i].Cancel, Until: m.others[i].until, Here: true, Written: true})
	}
	return out
}
