package partition

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// InlineSpec is the size in bytes of the longest spec that is kept in memory before its run is due.
const InlineSpec = 1 << 10

// window describes which slice of the store's due index is in memory. The due index orders the records of
// each priority by when something happens to them next. The window holds, for each priority, all of that
// order up to a frontier:
//
//	             overdue              now                      one horizon later
//	priority 0   ██████████████████████│███████████████┊·················│   █ in memory   · only stored
//	priority 1   ██████████████████████│█████████┊·······················│   ┊ frontier
//
//	             WantDue, Loaded  ──►  ┊  ◄──  retreat, shrink
//
// The invariant is that everything at or before a frontier is in memory, so Tick never misses a due record. A
// put before the frontier therefore stays in memory; one beyond it is dropped as soon as it is durable
// (dropIfIdle). A spec longer than InlineSpec is not kept; Needs asks for it when the run is due.
//
// WantDue asks for more, at most a horizon ahead, when no more than half of Config.WindowJobs records wait,
// their specs take less than Config.WindowBytes, and a frontier is less than half a horizon ahead. While due
// records are not in memory, the priorities share the window as backlog.go says. When puts overfill the
// window, shrink pulls the frontiers back and evicts what lies beyond. When one priority fills the window
// with records that are due later than what another has yet to read, retreat does the same. Only records that
// the store knows completely, and that nothing in memory refers to, can be evicted.
type window struct {
	frontier  [priorities]frontier
	bytes     int   // of specs in memory
	first     int   // the priority that is read first among equals
	retreated int64 // when retreat last scanned the window
}

// frontier is how far a priority has been read. Everything up to and including at is in memory.
type frontier struct {
	at store.Cursor
}

// holds reports whether a record lies at or before the frontier.
func (f frontier) holds(due int64, ref store.Ref) bool {
	return due < f.at.Due || (due == f.at.Due && ref.Compare(f.at.Ref) <= 0)
}

// WantDue returns what to read from the due index next; ok is false if the window is full enough or reaches
// far enough ahead.
func (m *Machine) WantDue(now int64) (q store.DueQuery, ok bool) {
	if class, page, ok := m.backlog(now); ok {
		q := store.DueQuery{Priority: uint8(class), After: m.window.frontier[class].at, Until: now + int64(m.cfg.Horizon), MaxSpec: InlineSpec}
		q.Limit = page
		return q, page > 0
	}
	class, others := m.nearest(now + int64(m.cfg.Horizon/2))
	if class < 0 || m.window.bytes >= m.cfg.WindowBytes {
		return q, false
	}
	at := m.window.frontier[class].at
	if m.room() < m.cfg.WindowJobs/2 && !m.retreat(at, now) {
		return q, false
	}
	page := min(m.room(), loadPage)
	if others { // so that a page of each priority fits
		page = min(page, max(1, m.cfg.WindowJobs/(4*priorities)))
	}
	return store.DueQuery{Priority: uint8(class), After: at, Until: now + int64(m.cfg.Horizon), Limit: page, MaxSpec: InlineSpec}, true
}

// loadPage bounds the records of one read, so that the partition's other work is not delayed for long.
const loadPage = 1024

// waiting returns how many records in memory have no attempt in force. Consumers bound the number of those
// that have one.
func (m *Machine) waiting() int { return len(m.entries) - m.grants }

// room returns how many more records the window takes.
func (m *Machine) room() int { return m.cfg.WindowJobs - m.waiting() }

// nearest returns the priority whose frontier is the earliest, -1 if all frontiers have reached until. others
// reports whether another priority has not reached it either.
func (m *Machine) nearest(until int64) (class int, others bool) {
	class = -1
	for i := range priorities {
		c := (m.window.first + i) % priorities
		f := &m.window.frontier[c]
		switch {
		case f.at.Due >= until:
		case class < 0:
			class = c
		default:
			others = true
			if compare(f.at, m.window.frontier[class].at) < 0 {
				class = c
			}
		}
	}
	return class, others
}

// compare orders cursors of several priorities as if they were of one.
func compare(a, b store.Cursor) int { return cmp.Or(cmp.Compare(a.Due, b.Due), a.Ref.Compare(b.Ref)) }

// retreat makes room for the priority whose frontier, to, is the earliest. If its next records may be due
// soon, and later records of other priorities take up most of the window, those are evicted. It reports
// whether there is room now.
func (m *Machine) retreat(to store.Cursor, now int64) bool {
	w := &m.window
	if to.Due > now+int64(retreatAhead) || now-w.retreated < int64(retreatEvery) {
		return false
	}
	w.retreated = now
	if most := m.waitingIdle(); m.waiting()-most > m.cfg.WindowJobs/4 {
		return false // evicting everything that can be would not make room: skip the scan
	}
	var later []*entry
	for _, t := range m.timers {
		if e := t.e; m.evictable(e) && compare(store.Cursor{Due: e.state.Due, Ref: e.ref}, to) > 0 {
			later = append(later, e)
		}
	}
	if m.waiting()-len(later) > m.cfg.WindowJobs/4 {
		return false
	}
	w.first = (w.first + 1) % priorities
	m.pullBack(to)
	for _, e := range later {
		m.evict(e)
	}
	return m.room() >= m.cfg.WindowJobs/2
}

// retreatEvery bounds how often retreat scans the window. It does so only for records that may be due within
// retreatAhead.
const (
	retreatEvery = 100 * time.Millisecond
	retreatAhead = 10 * time.Second
)

// waitingIdle returns an upper bound on the records that wait for their time: all that have a timer, less the
// attempts in force. Each of those has a timer unless it is a pending delivery.
func (m *Machine) waitingIdle() int { return len(m.timers) - max(0, m.grants-len(m.pendingDeliveries)) }

// evictable reports whether the store has all of e's state and nothing in memory refers to e.
func (m *Machine) evictable(e *entry) bool {
	return e.place == idle && !e.gone && !m.dirty(e) && e.children == 0
}

// Loaded takes the records that WantDue asked for, and moves the frontier.
func (m *Machine) Loaded(q store.DueQuery, records []store.Record, now int64) {
	f := &m.window.frontier[q.Priority]
	for i := range records {
		r := &records[i]
		f.at = store.Cursor{Due: r.State.Due, Ref: r.Ref}
		if _, here := m.entries[r.Ref]; !here && !m.doomed(r) {
			m.admit(r, now)
		}
	}
	if len(records) < q.Limit {
		f.at = store.Cursor{Due: q.Until + 1} // before every ref of the next instant
	}
}

// Has reports whether the record is in memory with everything that an operation on it needs.
func (m *Machine) Has(ref store.Ref) bool {
	e := m.entries[ref]
	return e != nil && (e.gone || m.complete(e))
}

// Load takes records that were read for an operation or because of Needs. Records already in memory keep
// their state, which is newer, and only get their spec.
func (m *Machine) Load(records []store.Record, now int64) {
	for i := range records {
		r := &records[i]
		delete(m.needs, r.Ref)
		if !r.Exists && m.entries[r.Ref] == nil {
			m.Backfills.lost(r.Ref)
		}
		if !r.Exists || m.doomed(r) {
			continue
		}
		e := m.entries[r.Ref]
		if e == nil {
			e = m.admit(r, now)
		} else if e.spec == nil && !e.gone {
			m.setSpec(e, r.Spec)
			m.examine(e, now)
		}
		m.follow(e)
	}
	m.unblock(now)
	m.feedBackfills(now)
}

// adopt links a job to those of its pending runs that came into memory before it.
func (m *Machine) adopt(parent *entry) {
	for _, e := range m.orphans[parent.ref.Key] {
		m.link(e, parent)
	}
	delete(m.orphans, parent.ref.Key)
}

func (m *Machine) link(e, parent *entry) {
	e.parent = parent
	parent.children++
	e.joinCounts(parent)
	if e.state.Settled < m.cfg.Term.Epoch && m.examineRun(e) {
		e.state.Settled = m.cfg.Term.Epoch
	}
	if e.place == running && e.renewal == 0 {
		m.guess(e) // a better estimate than without the job
		m.rearm(e)
	}
}

// disown forgets a pending run whose job never came into memory.
func (m *Machine) disown(e *entry) {
	key := e.ref.Key
	rest := slices.DeleteFunc(m.orphans[key], func(o *entry) bool { return o == e })
	if m.orphans[key] = rest; len(rest) == 0 {
		delete(m.orphans, key)
	}
}

// doomed reports whether r is a pending run of a deleted job: the store will lose it as soon as the batches
// in flight are applied.
func (m *Machine) doomed(r *store.Record) bool {
	if r.Seq == 0 {
		return false
	}
	_, doomed := m.deleting[r.Key]
	return doomed
}

// admit brings a stored record into memory.
func (m *Machine) admit(r *store.Record, now int64) *entry {
	e := &entry{ref: r.Ref, state: r.State, timer: -1}
	m.setSpec(e, r.Spec)
	m.entries[r.Ref] = e
	if r.Seq != 0 {
		if p := m.entries[r.Ref.Job()]; p != nil && !p.gone {
			m.link(e, p)
		} else {
			m.orphans[r.Key] = append(m.orphans[r.Key], e)
		}
	} else {
		m.adopt(e)
	}
	if !e.state.Run.Live {
		m.setWake(e, e.state.Due)
		m.examine(e, now)
		return e
	}
	m.live[e.state.Identity(m.cfg.Partition)] = e
	if e.state.Phase == carillon.PhaseStaged {
		m.recall(e)
	}
	switch {
	case e.state.Phase != carillon.PhaseRunning:
		m.setWake(e, e.state.Due)
	case e.isDapr() && !e.state.Run.Kept:
		m.reclaim(e, now)
	default:
		m.takeOver(e, now)
	}
	m.examine(e, now)
	return e
}

// takeOver continues an attempt that an earlier owner handed out. Heartbeats may have extended its lease
// since it was stored, so it gets at least one heartbeat interval.
func (m *Machine) takeOver(e *entry, now int64) {
	e.place, e.durable, e.made, e.granted, e.putOff = running, true, false, now, 0
	m.grants++
	m.adoptPermit(e)
	if e.ref.Seq != 0 && e.parent == nil {
		m.needs[e.ref.Job()] = struct{}{}
	}
	m.guess(e)
	m.rearm(e)
}

// guess sets the lease of an attempt that was taken over as if its worker had just missed its first
// heartbeat.
func (m *Machine) guess(e *entry) {
	beat := 10 * time.Second // the longest interval; the job's own may not be in memory
	if e.specOf() != nil {
		e.renewal = m.jobOf(e).LeaseOrDefault()
		beat = heartbeatInterval(e.renewal)
	}
	if q := m.queueOf(e); q != (Queue{}) {
		e.queue = &q
	}
	if e.lease = max(e.state.Run.Lease, e.granted+int64(beat+m.cfg.TakeoverGrace)); e.isDapr() {
		e.lease = e.granted + int64(keptFor)
	}
}

// setSpec gives e its encoded spec, nil for none.
func (m *Machine) setSpec(e *entry, spec []byte) {
	m.window.bytes += len(spec) - len(e.spec)
	e.spec, e.job, e.sched = spec, nil, nil
}

// complete reports whether everything that e's run needs is in memory. Needs asks for what is missing.
func (m *Machine) complete(e *entry) bool {
	if e.ref.Seq != 0 && e.parent == nil {
		m.needs[e.ref.Job()] = struct{}{}
		return false
	}
	if e.specOf() != nil {
		return true
	}
	if e.own() {
		m.needs[e.ref] = struct{}{}
	} else {
		m.needs[e.parent.ref] = struct{}{}
	}
	return false
}

// specMissing is the negation of complete.
func (m *Machine) specMissing(e *entry) bool { return !m.complete(e) }

// Needs returns at most n records that must be read whole before due runs can go on. It returns none while
// the memory for specs is used up by runs that can go on without them.
func (m *Machine) Needs(n int) []store.Ref {
	if len(m.needs) == 0 || (m.window.bytes >= m.cfg.WindowBytes && m.busy()) {
		return nil
	}
	refs := make([]store.Ref, 0, min(n, len(m.needs)))
	for ref := range m.needs {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, store.Ref.Compare)
	return refs[:min(n, len(refs))]
}

// busy reports whether any run waits with its spec. Handing it out or parking it frees memory without further
// reads.
func (m *Machine) busy() bool {
	for _, q := range m.active {
		if q.len() > 0 {
			return true
		}
	}
	return false
}

// Settle drops from memory the records that operations brought in and the window does not hold. The engine
// calls it at the end of a round.
func (m *Machine) Settle(refs []store.Ref) {
	for _, ref := range refs {
		if e := m.entries[ref]; e != nil {
			m.dropIfIdle(e)
		}
	}
	m.shrink()
}

// dropIfIdle evicts e if it only waits and lies beyond the frontier. If it lies before, a long spec is
// dropped alone.
func (m *Machine) dropIfIdle(e *entry) {
	if e.place == running {
		m.lighten(e)
	}
	if !m.evictable(e) {
		return
	}
	if e.timer < 0 || !m.window.frontier[e.state.Priority].holds(e.state.Due, e.ref) {
		m.evict(e)
		return
	}
	if len(e.spec) > InlineSpec {
		m.setSpec(e, nil)
	} else if m.timers[e.timer].wake > m.ticked+int64(keepDecoded) {
		e.job, e.sched = nil, nil
	}
}

// keepDecoded is how soon a job must be due for its decoded spec to stay in memory. That is several times as
// large as the encoded one.
const keepDecoded = 5 * time.Second

// lighten drops the long spec of a run that has been handed out when memory for specs is short. It is read
// again when the attempt ends.
func (m *Machine) lighten(e *entry) {
	if p := e.parent; !e.own() && p != nil && p.children == 1 && p.place == idle {
		e = p
	} else if e.children > 0 {
		return
	}
	if len(e.spec) > InlineSpec && m.window.bytes >= m.cfg.WindowBytes && !m.dirty(e) {
		m.setSpec(e, nil)
	}
}

func (m *Machine) evict(e *entry) {
	m.setWake(e, 0)
	m.setSpec(e, nil)
	delete(m.entries, e.ref)
	if e.state.Run.Live {
		delete(m.live, e.state.Identity(m.cfg.Partition))
	}
	if e.state.Phase == carillon.PhaseStaged {
		q := ParseQueue(e.state.Queue)
		m.queue(q).parked.restart()
		m.markUnread(q)
		if e.recalled {
			e.recalled = false
			m.forgetRecalled(*e.parkedIn)
		}
	}
	if p := e.parent; p != nil {
		e.settleCounts(p, false)
		p.children--
		e.parent = nil
		m.dropIfIdle(p)
	} else if e.ref.Seq != 0 {
		m.disown(e)
	}
}

// shrink pulls the frontiers back when puts have filled the window to more than a quarter above its budget.
func (m *Machine) shrink() {
	if m.waiting() <= m.cfg.WindowJobs+m.cfg.WindowJobs/4 {
		return
	}
	var waiting []*entry
	for _, t := range m.timers {
		if e := t.e; m.evictable(e) {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(a, b *entry) int {
		if c := cmp.Compare(a.state.Due, b.state.Due); c != 0 {
			return c
		}
		return a.ref.Compare(b.ref)
	})
	keep := m.cfg.WindowJobs - (m.waiting() - len(waiting))
	if keep < 0 || keep >= len(waiting) {
		keep = len(waiting) / 2
	}
	if keep == len(waiting) {
		return
	}
	var last store.Cursor
	if keep > 0 {
		last = store.Cursor{Due: waiting[keep-1].state.Due, Ref: waiting[keep-1].ref}
	}
	m.pullBack(last)
	for _, e := range waiting[keep:] {
		m.evict(e)
	}
}

// pullBack moves every frontier that lies beyond the cursor back to it.
func (m *Machine) pullBack(to store.Cursor) {
	for class := range m.window.frontier {
		f := &m.window.frontier[class]
		if to.Due < f.at.Due || (to.Due == f.at.Due && to.Ref.Compare(f.at.Ref) < 0) {
			*f = frontier{at: to}
		}
	}
}
