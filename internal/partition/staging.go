package partition

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
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
func (m *Machine) recall(e *entry) {
	if !e.recalled {
		q := m.queue(ParseQueue(e.state.Queue))
		e.recalled, e.parkedIn = true, q.name
		q.parked.recalled++
	}
}

// forgetRecalled takes back what recall counted.
func (m *Machine) forgetRecalled(q Queue) {
	st := m.queue(q)
	st.parked.recalled--
	m.unrecord(st)
}

// unrecord removes the metadata record of a queue of which nothing is parked any more.
func (m *Machine) unrecord(st *queue) {
	if p := &st.parked; p.recorded && p.none && p.recalled == 0 {
		p.recorded = false
		m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindParked, Key: st.name.String()})
	}
	m.leaveQueue(st)
}

// loadParked takes the metadata records of kind store.KindParked, at takeover.
func (m *Machine) loadParked(records []store.MetaRecord) {
	for _, r := range records {
		st := m.queue(ParseQueue(r.Key))
		st.parked.restart()
		st.parked.recorded = true
		if key, limited := lineOf(*st.name); limited {
			m.stalled = append(m.stalled, m.line(key))
		}
	}
}

// Parked appends the queues with runs in the store, ordered by name.
func (m *Machine) Parked(out []Queue) []Queue {
	from := len(out)
	for q, st := range m.queues {
		if !st.parked.none {
			out = append(out, q)
		}
	}
	slices.SortFunc(out[from:], Queue.Compare)
	return out
}

// Stage parks at most n due runs of a queue that have waited since before (UTC ns), lowest priorities first,
// and returns how many. Parking costs no attempt. Once it is durable the run takes no memory.
func (m *Machine) Stage(q Queue, before int64, n int) int {
	st := m.queues[q]
	if st == nil {
		return 0
	}
	done := 0
	for rank := priorities - 1; rank >= 0; rank-- {
		for i := len(st.lists[rank]) - 1; i >= 0 && done < n; i-- {
			if i >= len(st.lists[rank]) {
				continue // parking a run also took others from the list
			}
			if e := st.lists[rank][i]; e.readyAt <= before {
				m.park(e, st)
				done++
			}
		}
	}
	if done > 0 && m.cfg.Events.Staged != nil {
		m.cfg.Events.Staged(q, done)
	}
	return done
}

// park moves one due run from memory to the store, where it is filed under st.
func (m *Machine) park(e *entry, st *queue) {
	m.dequeue(e)
	if !st.parked.recorded {
		st.parked.recorded = true
		m.out.small = append(m.out.small, store.MetaRecord{Kind: store.KindParked, Key: st.name.String(), Value: []byte{1}})
	}
	st.parked.restart()
	if e.state.Phase == carillon.PhaseStaged && e.state.Queue == st.name.String() {
		m.rearm(e)
		m.dropIfIdle(e) // it is parked there already
		return
	}
	e.state.Phase, e.state.Queue = carillon.PhaseStaged, st.name.String()
	m.touch(e)
	st.parked.seq = m.out.seq
	m.rearm(e)
}

// WantStaged returns what to read back for a queue that has room; ok is false if nothing is parked or enough
// waits in memory.
func (m *Machine) WantStaged(q Queue, room int) (sq store.StagedQuery, ok bool) {
	st := m.queues[q]
	if st == nil || st.parked.none || st.parked.seq > m.out.durable || st.len() >= room || len(m.needs) >= room {
		return sq, false
	}
	if key, limited := lineOf(q); limited {
		if room = min(room, m.permitsFor(key)); room == 0 {
			return sq, false
		}
	}
	return store.StagedQuery{Queue: q.String(), After: st.parked.at, Limit: min(room, loadPage), MaxSpec: InlineSpec}, true
}

// LoadStaged takes the records that WantStaged asked for.
func (m *Machine) LoadStaged(q Queue, sq store.StagedQuery, records []store.Record, now int64) {
	st := m.queue(q)
	key, limited := lineOf(q)
	for i := range records {
		r := &records[i]
		st.parked.at = store.Cursor{Priority: r.State.Priority, Due: r.State.Run.Due, Ref: r.Ref}
		e := m.entries[r.Ref]
		if e == nil && m.doomed(r) {
			continue
		}
		if e == nil {
			e = m.admit(r, now)
		}
		if e.place == idle && !e.gone && e.state.Run.Live && e.state.Phase == carillon.PhaseStaged {
			m.recall(e)
			m.setWake(e, 0)
			m.enqueue(e, now)
			if limited && e.place == ready {
				m.try(e, key)
			}
		}
	}
	if len(records) < sq.Limit {
		st.parked.none = true
		m.unrecord(st)
	}
	m.feedBackfills(now)
}

// StageAfter returns how long a due run waits for a consumer or a free slot before it is parked.
func (m *Machine) StageAfter() time.Duration { return m.cfg.StageAfter }

// Crowded reports whether due runs should be parked early: more is due than fits into memory beside what
// waits there, or triggers have put far more there than should wait.
func (m *Machine) Crowded(now int64) bool {
	full := m.window.bytes >= m.cfg.WindowBytes
	if full && len(m.needs) > 0 {
		return true
	}
	switch waiting := m.waiting(); {
	case waiting > 2*m.cfg.WindowJobs:
		return true
	case !full && waiting < m.cfg.WindowJobs/2:
		return false
	}
	for class := range m.window.frontier {
		if m.window.frontier[class].at.Due <= now {
			return true
		}
	}
	return false
}
