package partition

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// InlineSpec is the size in bytes of the longest spec that is kept in memory before its run is due.
const InlineSpec = 1 << 10

// Window describes which slice of the store's due index is in memory. The due index orders the records of
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
type Window struct {
	cfg      *Config
	out      *builder
	contents *contents
	agenda   *agenda
	records  *Records
	suspects *suspects
	due      *dueRuns
	attempts *Attempts
	usage    *Usage
	tick     func(now int64) // lets time pass

	frontier  [priorities]store.Cursor // everything up to and including it is in memory
	first     int                      // the priority that is read first among equals
	retreated int64                    // when retreat last scanned the window
}

// WantDue returns what to read from the due index next; ok is false if the window is full enough or reaches
// far enough ahead.
func (w *Window) WantDue(now int64) (q store.DueQuery, ok bool) {
	if class, page, ok := w.backlog(now); ok {
		q := store.DueQuery{Priority: uint8(class), After: w.frontier[class],
			Until: now + int64(horizon), MaxSpec: InlineSpec}
		q.Limit = page
		return q, page > 0
	}
	class, others := w.nearest(now + int64(horizon/2))
	if class < 0 || w.contents.full() {
		return q, false
	}
	at := w.frontier[class]
	if w.room() < w.cfg.WindowJobs/2 && !w.retreat(at, now) {
		return q, false
	}
	page := min(w.room(), loadPage)
	if others { // so that a page of each priority fits
		page = min(page, max(1, w.cfg.WindowJobs/(4*priorities)))
	}
	return store.DueQuery{Priority: uint8(class), After: at, Until: now + int64(horizon), Limit: page,
		MaxSpec: InlineSpec}, true
}

// horizon is how far ahead records are read; those that are due later stay in the store.
const horizon = time.Hour

// loadPage bounds the records of one read, so that the partition's other work is not delayed for long.
const loadPage = 1024

// waiting returns how many records in memory have no attempt in force. Consumers bound the number of those
// that have one.
func (w *Window) waiting() int { return len(w.records.entries) - w.attempts.grants }

// room returns how many more records the window takes.
func (w *Window) room() int { return w.cfg.WindowJobs - w.waiting() }

// behind reports whether records that are due by an instant may not have been read.
func (w *Window) behind(at int64) bool {
	return slices.ContainsFunc(w.frontier[:], func(f store.Cursor) bool { return f.Due <= at })
}

// nearest returns the priority whose frontier is the earliest, -1 if all frontiers have reached until. others
// reports whether another priority has not reached it either.
func (w *Window) nearest(until int64) (class int, others bool) {
	class = -1
	for i := range priorities {
		c := (w.first + i) % priorities
		switch at := w.frontier[c]; {
		case at.Due >= until:
		case class < 0:
			class = c
		default:
			others = true
			if compare(at, w.frontier[class]) < 0 {
				class = c
			}
		}
	}
	return class, others
}

// cursor is where e stands in the due index.
func (e *entry) cursor() store.Cursor { return store.Cursor{Due: e.state.Due, Ref: e.ref} }

// compare orders cursors of several priorities as if they were of one.
func compare(a, b store.Cursor) int {
	if c := cmp.Compare(a.Due, b.Due); c != 0 {
		return c
	}
	return a.Ref.Compare(b.Ref)
}

// retreat makes room for the priority whose frontier, to, is the earliest. If its next records may be due
// soon, and later records of other priorities take up most of the window, those are evicted. It reports
// whether there is room now.
func (w *Window) retreat(to store.Cursor, now int64) bool {
	if to.Due > now+int64(retreatAhead) || now-w.retreated < int64(retreatEvery) {
		return false
	}
	w.retreated = now
	if most := w.waitingIdle(); w.waiting()-most > w.cfg.WindowJobs/4 {
		return false // evicting everything that can be would not make room: skip the scan
	}
	var later []*entry
	for _, t := range w.agenda.timers {
		if e := t.e; w.evictable(e) && compare(e.cursor(), to) > 0 {
			later = append(later, e)
		}
	}
	if w.waiting()-len(later) > w.cfg.WindowJobs/4 {
		return false
	}
	w.first = (w.first + 1) % priorities
	w.pullBack(to)
	for _, e := range later {
		w.evict(e)
	}
	return w.room() >= w.cfg.WindowJobs/2
}

// retreatEvery bounds how often retreat scans the window. It does so only for records that may be due within
// retreatAhead.
const (
	retreatEvery = 100 * time.Millisecond
	retreatAhead = 10 * time.Second
)

// waitingIdle returns an upper bound on the records that wait for their time: all that have a timer, less the
// attempts in force. Each of those has a timer unless it is a pending delivery.
func (w *Window) waitingIdle() int {
	return len(w.agenda.timers) - max(0, w.attempts.grants-len(w.attempts.pendingDeliveries))
}

// evictable reports whether the store has all of e's state and nothing in memory refers to e.
func (w *Window) evictable(e *entry) bool {
	return e.place == idle && !w.out.dirty(e) && e.children == 0
}

// Loaded takes the records that WantDue asked for, and moves the frontier.
func (w *Window) Loaded(q store.DueQuery, records []store.Record, now int64) {
	f := &w.frontier[q.Priority]
	for i := range records {
		r := &records[i]
		*f = store.Cursor{Due: r.State.Due, Ref: r.Ref}
		if _, here := w.records.entries[r.Ref]; !here && !w.records.doomed(r) {
			w.contents.lighten(w.admit(r, now))
		}
	}
	if len(records) < q.Limit {
		*f = store.Cursor{Due: q.Until + 1} // before every ref of the next instant
	}
}

// Has reports whether the record is in memory with everything that an operation on it needs.
func (rs *Records) Has(ref store.Ref) bool {
	e := rs.entries[ref]
	return e != nil && (e.place == gone || rs.complete(e))
}

// Load takes records that were read for an operation or because of Needs. Records already in memory keep
// their state, which is newer, and only get their spec.
func (m *Machine) Load(records []store.Record, now int64) {
	for i := range records {
		r := &records[i]
		delete(m.Records.needs, r.Ref)
		if !r.Exists && m.Records.entries[r.Ref] == nil {
			m.Backfills.lost(r.Ref)
		}
		if !r.Exists || m.Records.doomed(r) {
			delete(m.Attempts.unread, r.Ref)
			continue
		}
		e := m.Records.entries[r.Ref]
		if e == nil {
			e = m.Window.admit(r, now)
		} else if e.spec == nil && e.place != gone {
			m.contents.set(e, r.Spec)
			m.due.examine(e, now)
		}
		m.due.follow(e)
		m.Attempts.learn(r.Ref)
	}
	m.unblock(now)
	m.BackfillRuns.feed(now)
}

// adopt links a job to those of its pending runs that came into memory before it.
func (w *Window) adopt(parent *entry) {
	for _, e := range w.records.orphans[parent.ref.Key] {
		w.link(e, parent)
	}
	delete(w.records.orphans, parent.ref.Key)
}

func (w *Window) link(e, parent *entry) {
	e.parent = parent
	parent.children++
	e.joinCounts(parent)
	w.suspects.settleRun(e)
	if e.place == running && e.attempt.renewal == 0 {
		w.attempts.guess(e) // a better estimate than without the job
		w.agenda.rearm(e)
	}
}

// admit brings a stored record into memory.
func (w *Window) admit(r *store.Record, now int64) *entry {
	e := &entry{ref: r.Ref, state: r.State, timer: -1, slot: -1}
	w.contents.set(e, r.Spec)
	w.records.entries[r.Ref] = e
	if r.Seq != 0 {
		if p := w.records.entries[r.Ref.Job()]; p != nil && p.place != gone {
			w.link(e, p)
		} else {
			w.records.orphans[r.Key] = append(w.records.orphans[r.Key], e)
		}
	} else {
		w.adopt(e)
	}
	if !e.state.Run.Live {
		w.agenda.set(e, e.state.Due)
		w.due.examine(e, now)
		return e
	}
	w.records.live[e.state.Identity(w.cfg.Partition)] = e
	if e.state.Phase == carillon.PhaseStaged {
		w.due.queues.recall(e)
	}
	switch {
	case e.state.Phase != carillon.PhaseRunning:
		w.agenda.set(e, e.state.Due)
	case e.traits().endsWithStream && !e.state.Run.Kept:
		w.attempts.reclaim(e, now)
	default:
		w.attempts.takeOver(e, now)
	}
	w.due.examine(e, now)
	return e
}

// Needs returns at most n records that must be read whole before due runs can go on. It returns none while
// the memory for specs is used up by runs that can go on without them.
func (w *Window) Needs(n int) []store.Ref {
	if len(w.records.needs) == 0 || (w.contents.full() && w.due.queues.busy()) {
		return nil
	}
	refs := make([]store.Ref, 0, min(n, len(w.records.needs)))
	for ref := range w.records.needs {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, store.Ref.Compare)
	return refs[:min(n, len(refs))]
}

// busy reports whether any run waits with its spec. Handing it out or parking it frees memory without further
// reads.
func (s *Queues) busy() bool {
	for _, q := range s.active {
		if q.len() > 0 {
			return true
		}
	}
	return false
}

// Settle drops from memory the records that operations brought in and the window does not hold. The engine
// calls it at the end of a round.
func (w *Window) Settle(refs []store.Ref) {
	for _, ref := range refs {
		if e := w.records.entries[ref]; e != nil {
			w.dropIfIdle(e)
		}
	}
	w.shrink()
}

// dropIfIdle evicts e if it only waits and lies beyond the frontier. If it lies before, a long spec is
// dropped alone.
func (w *Window) dropIfIdle(e *entry) {
	if e.place == running {
		w.contents.lighten(e)
	}
	if !w.evictable(e) {
		return
	}
	if e.timer < 0 || compare(e.cursor(), w.frontier[e.state.Priority]) > 0 {
		w.evict(e)
		return
	}
	if len(e.spec) > InlineSpec {
		w.contents.set(e, nil)
	} else if w.agenda.timers[e.timer].wake > w.agenda.ticked+int64(keepDecoded) {
		e.decoded, e.sched = nil, nil
	}
}

// keepDecoded is how soon a job must be due for its decoded spec to stay in memory. That is several times as
// large as the encoded one.
const keepDecoded = 5 * time.Second

func (w *Window) evict(e *entry) {
	w.agenda.set(e, 0)
	w.contents.set(e, nil)
	delete(w.records.entries, e.ref)
	if e.state.Run.Live {
		delete(w.records.live, e.state.Identity(w.cfg.Partition))
	}
	if e.state.Phase == carillon.PhaseStaged {
		q := delivery.ParseQueue(e.state.Queue)
		w.due.queues.queue(q).parked.restart()
		w.due.permits.markUnread(q)
		if parked := e.parkedIn; parked != nil {
			e.parkedIn = nil
			w.due.queues.forgetRecalled(*parked)
		}
	}
	if p := e.parent; p != nil {
		e.settleCounts(p, false)
		p.children--
		e.parent = nil
		w.dropIfIdle(p)
	} else if e.ref.Seq != 0 {
		w.records.disown(e)
	}
}

// shrink pulls the frontiers back when puts have filled the window to more than a quarter above its budget.
func (w *Window) shrink() {
	if w.waiting() <= w.cfg.WindowJobs+w.cfg.WindowJobs/4 {
		return
	}
	var waiting []*entry
	for _, t := range w.agenda.timers {
		if e := t.e; w.evictable(e) {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, func(a, b *entry) int { return compare(a.cursor(), b.cursor()) })
	keep := w.cfg.WindowJobs - (w.waiting() - len(waiting))
	if keep < 0 || keep >= len(waiting) {
		keep = len(waiting) / 2
	}
	if keep == len(waiting) {
		return
	}
	var last store.Cursor
	if keep > 0 {
		last = waiting[keep-1].cursor()
	}
	w.pullBack(last)
	for _, e := range waiting[keep:] {
		w.evict(e)
	}
}

// pullBack moves every frontier that lies beyond the cursor back to it.
func (w *Window) pullBack(to store.Cursor) {
	for class, at := range w.frontier {
		if compare(to, at) < 0 {
			w.frontier[class] = to
		}
	}
}
