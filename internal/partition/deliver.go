package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// httpGrace is how long after an HTTP attempt's timeout the machine itself calls it lost: the target reports its own
// timeouts, and more precisely.
const httpGrace = 5 * time.Second

// Deliver hands out the next n due runs of a queue, as attempts; the caller has as many slots for them. Fewer come back only
// if fewer wait.
func (m *Machine) Deliver(now int64, q Queue, n int) []Delivery {
	st := m.queues[q]
	if st == nil || n <= 0 {
		return nil
	}
	out := make([]Delivery, 0, min(n, st.len()))
	for len(out) < n {
		rank := st.next(now)
		if rank < 0 {
			break
		}
		e := st.lists[rank][0]
		m.dequeue(e)
		out = append(out, m.grant(e, q, now))
	}
	return out
}

// grant begins the next attempt of e's run.
func (m *Machine) grant(e *entry, q Queue, now int64) Delivery {
	j, s := m.jobOf(e), &e.state
	r := &s.Run
	late := time.Duration(now - r.Due)
	r.Attempt++
	r.Percent, r.Message, r.Said = 0, "", 0
	r.Grant = store.Grant{Term: m.cfg.Term, Generation: m.generation(e)}
	if r.Started == 0 {
		r.Started = now
	}
	m.countGrant(e, q, late)
	timeout, lease := j.TimeoutOrDefault(), j.LeaseOrDefault()
	r.Deadline = now + int64(timeout)
	e.lease, e.renewal = now+int64(lease), lease
	if q.Kind == "http" {
		r.Deadline += int64(httpGrace)
		e.lease = r.Deadline
	}
	s.Phase, s.Queue = carillon.PhaseRunning, ""
	e.place, e.durable, e.granted = running, false, now
	m.grants++
	id := s.Identity(m.cfg.Partition)
	e.token = Token{Grant: r.Grant, Run: id, Attempt: r.Attempt}.Sign(m.cfg.MACKey)
	m.rearm(e)
	m.lighten(e)
	return Delivery{
		Queue: q, Target: j.Target, Timeout: timeout,
		Run: carillon.Run{
			ID: id.String(), Namespace: e.ref.Namespace, Job: e.ref.Name, Cause: r.Cause, Status: carillon.RunRunning,
			Scheduled: toTime(r.Scheduled), Due: toTime(r.Due), Attempt: r.Attempt, Started: toTime(now),
			Token: e.token, Queue: q.Address, Deadline: toTime(now + int64(timeout)), Lease: lease,
			Data: j.Data, Metadata: j.Metadata, Backfill: backfillOf(id),
		},
	}
}

// lateAfter is when a first attempt counts as late.
const lateAfter = time.Second

func (m *Machine) countGrant(e *entry, q Queue, late time.Duration) {
	if m.cfg.Events.Fired != nil {
		m.cfg.Events.Fired(Fired{Queue: q, Attempt: e.state.Run.Attempt, Lateness: late})
	}
	c := m.count(e)
	switch {
	case resumes(&e.state.Run): // the run goes on: it neither begins nor is tried once more
	case e.state.Run.Attempt > 1:
		c.Retried++
	case late > lateAfter:
		c.Late++
		c.Fired++
	default:
		c.Fired++
	}
}

// resumes reports whether the newest attempt is the first after a reschedule.
func resumes(r *store.RunState) bool { return r.Uncounted > 0 && r.Attempt == r.Uncounted+1 }

// generation is that of the content that e runs by: its job's, or its own.
func (m *Machine) generation(e *entry) uint64 {
	if o := e.owner(); o != nil && e.spec == nil {
		return o.state.Generation
	}
	return e.state.Generation
}

// leave takes e out of the attempts in force. The grant is remembered if a report ended the attempt, so that the same
// report, sent again, gets the same answer; of another its generation is, which a redrive must exceed.
func (m *Machine) leave(e *entry, reported bool) {
	m.grants--
	e.place, e.token = idle, ""
	if !reported {
		e.state.Run.Grant.Term = store.Term{}
	}
}

// stop tells the consumer of the attempt in force to end it.
func (m *Machine) stop(e *entry) {
	if e.place != running {
		return
	}
	q := e.queue
	if q == (Queue{}) { // taken over without its spec
		q = m.queueOf(e)
	}
	m.cancels = append(m.cancels, Cancel{Queue: q, Token: e.token, RunID: e.state.Identity(m.cfg.Partition).String()})
}

// queueOf is the queue of e's target; the zero queue if its spec is not in memory.
func (m *Machine) queueOf(e *entry) Queue {
	if e.specOf() == nil {
		return Queue{}
	}
	return QueueOf(e.ref.Namespace, m.jobOf(e).Target)
}

// KeepGrants makes every attempt in force durable as it stands, before the owner leaves.
func (m *Machine) KeepGrants() {
	for _, e := range m.live {
		if e.place == running {
			m.keepGrant(e)
		}
	}
}
