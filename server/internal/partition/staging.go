package partition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/store"
)

// Due runs that nobody takes are parked in the store, in the staged phase, so that they use no memory. Queues
// with parked runs are named by metadata records (store.KindParked), so that a new owner knows them.

// parked is the state of the runs that a queue has parked in the store.
type parked struct {
	none     bool         // nothing is parked that is not also in memory
	at       store.Cursor // how far it has been read back
	seq      uint64       // the last batch that parks a run of the queue
	recorded bool         // a metadata record says that runs may be parked
	recalled int          // records in memory that the store has as parked
}

// restart makes the next read begin at the front.
func (p *parked) restart() { p.none, p.at = false, store.Cursor{} }

// recall counts a parked record that is in memory. The queue's metadata record stays until the run is written
// otherwise.
func (s *Queues) recall(e *entry) {
	if e.parkedIn == nil {
		q := s.queue(delivery.ParseQueue(e.state.Queue))
		e.parkedIn = q.name
		q.parked.recalled++
	}
}

// forgetRecalled takes back what recall counted.
func (s *Queues) forgetRecalled(q delivery.Queue) {
	st := s.queue(q)
	st.parked.recalled--
	s.unrecord(st)
}

// unrecord removes the metadata record of a queue of which nothing is parked any more.
func (s *Queues) unrecord(st *queue) {
	if p := &st.parked; p.recorded && p.none && p.recalled == 0 {
		s.record(st, false)
	}
	s.forgetEmpty(st)
}

// record writes or removes the metadata record of a queue.
func (s *Queues) record(st *queue, parked bool) {
	st.parked.recorded = parked
	r := store.MetaRecord{Kind: store.KindParked, Key: st.name.String()}
	if parked {
		r.Value = []byte{1}
	}
	s.out.small = append(s.out.small, r)
	if n := len(s.recording); n == 0 || s.recording[n-1] != s.out.seq {
		s.recording = append(s.recording, s.out.seq)
	}
}

// committed says that all batches up to seq are durable.
func (s *Queues) committed(seq uint64) {
	for len(s.recording) > 0 && s.recording[0] <= seq {
		s.recorded = s.recording[0]
		s.recording = slices.Delete(s.recording, 0, 1)
	}
}

// Recorded returns the last durable batch that changed which queues are named as parked; 0 if no batch of the
// term has.
func (s *Queues) Recorded() uint64 { return s.recorded }

// loadParked takes the metadata records of kind store.KindParked, at takeover.
func (p *Permits) loadParked(records []store.MetaRecord) {
	for _, r := range records {
		st := p.queues.queue(delivery.ParseQueue(r.Key))
		st.parked.restart()
		st.parked.recorded = true
		if key, limited := st.name.Line(); limited {
			p.stalled = append(p.stalled, p.line(key))
		}
	}
}

// AppendParked appends the queues all of whose due runs are in the store, ordered by name.
func (s *Queues) AppendParked(out []delivery.Waiting) []delivery.Waiting {
	from := len(out)
	for q, st := range s.queues {
		if !st.parked.none && !st.listed && !q.Limited() {
			out = append(out, delivery.Waiting{Queue: q})
		}
	}
	slices.SortFunc(out[from:], func(a, b delivery.Waiting) int { return a.Queue.Compare(b.Queue) })
	return out
}

// Stage parks at most n due runs of a queue that have waited since before (UTC ns), lowest priorities first,
// and returns how many. Parking costs no attempt. Once it is durable the run takes no memory.
func (w *Window) Stage(q delivery.Queue, before int64, n int) int {
	st := w.due.queues.queues[q]
	if st == nil {
		return 0
	}
	done := 0
	for rank := priorities - 1; rank >= 0; rank-- {
		for _, l := range []*heaps.Of[*entry]{&st.lists[rank], &st.overdue[rank]} {
			for i := len(*l) - 1; i >= 0 && done < n; i-- {
				if i >= len(*l) {
					continue // parking a run also took others from the list
				}
				if e := (*l)[i]; e.readyAt <= before {
					w.park(e, st)
					done++
				}
			}
		}
	}
	if done > 0 && w.cfg.Events.Staged != nil {
		w.cfg.Events.Staged(q, done)
	}
	return done
}

// park moves one due run from memory to the store, where it is filed under st.
func (w *Window) park(e *entry, st *queue) {
	w.due.dequeue(e)
	if !st.parked.recorded {
		w.due.queues.record(st, true)
	}
	st.parked.restart()
	if e.state.Phase == carillon.PhaseStaged && e.state.Queue == st.name.String() {
		w.agenda.rearm(e)
		w.dropIfIdle(e) // it is parked there already
		return
	}
	e.state.Phase, e.state.Queue = carillon.PhaseStaged, st.name.String()
	w.due.touch(e)
	st.parked.seq = w.out.seq
	w.agenda.rearm(e)
}

// WantStaged returns what to read back for a queue that has room; ok is false if nothing is parked or enough
// waits in memory.
func (w *Window) WantStaged(q delivery.Queue, room int) (sq store.StagedQuery, ok bool) {
	st := w.due.queues.queues[q]
	if st == nil || st.parked.none || st.parked.seq > w.out.durable || st.len() >= room ||
		len(w.records.needs) >= room {
		return sq, false
	}
	if key, limited := q.Line(); limited {
		if room = min(room, w.due.permits.reserved(key)); room == 0 {
			return sq, false
		}
	}
	return store.StagedQuery{Queue: q.String(), After: st.parked.at, Limit: min(room, loadPage),
		MaxSpec: InlineSpec}, true
}

// LoadStaged takes the records that WantStaged asked for.
func (m *Machine) LoadStaged(q delivery.Queue, sq store.StagedQuery, records []store.Record, now int64) {
	st := m.Queues.queue(q)
	key, limited := q.Line()
	for i := range records {
		r := &records[i]
		st.parked.at = store.Cursor{Priority: r.State.Priority, Due: r.State.Run.Due, Ref: r.Ref}
		e := m.Records.entries[r.Ref]
		if e == nil && m.Records.doomed(r) {
			continue
		}
		if e == nil {
			e = m.Window.admit(r, now)
		}
		if e.place == idle && e.state.Run.Live && e.state.Phase == carillon.PhaseStaged {
			m.Queues.recall(e)
			m.agenda.set(e, 0)
			m.due.enqueue(e, now)
			if limited && e.place == ready {
				m.Permits.try(e, key)
			}
		}
	}
	if len(records) < sq.Limit {
		st.parked.none = true
		m.Queues.unrecord(st)
	}
	m.BackfillRuns.feed(now)
}

// StageAfter is how long a due run waits for a consumer or a free slot before it is parked.
const StageAfter = time.Second

// Crowded reports whether due runs should be parked early: more is due than fits into memory beside what
// waits there, or triggers have put far more there than should wait.
func (w *Window) Crowded(now int64) bool {
	full := w.contents.full()
	if full && len(w.records.needs) > 0 {
		return true
	}
	switch waiting := w.waiting(); {
	case waiting > 2*w.cfg.WindowJobs:
		return true
	case !full && waiting < w.cfg.WindowJobs/2:
		return false
	}
	return w.behind(now)
}
