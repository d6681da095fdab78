package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// builder collects the contents of the next batch. Batches go through these stages, in the order of their
// numbers:
//
//	touch, note, Write      seal           Batch              Committed
//	    filling ──────────► sealed ──────► in flight ───────► durable
//	    seq                                                   durable
//
// An entry that changed is dirty until the batch numbered entry.seq is durable. It stays in memory that long.
type builder struct {
	seq     uint64 // number of the batch being filled
	durable uint64 // all batches up to this number are durable
	after   uint64 // the batch that the answers of this round wait for; see Machine.After
	changed []*entry
	runs    []store.RunRecord
	redrive []store.RunRef
	trims   []store.Trim
	expire  *store.Expire
	small   []store.MetaRecord
	events  *EventLog
	audit   *AuditLog
	sealed  []sealedBatch    // closed, in order, not yet returned by Batch
	flight  []*entry         // entries changed by batches in flight
	ending  []*store.Batch   // batches in flight in which runs finish
	freed   []delivery.Queue // of batches in flight; see sealedBatch
	permits []delivery.Limit // whose permits are returned once the batch being filled is durable
	spent   []delivery.Limit // the same, for batches in flight
	paused  []JobPaused      // in the batch being filled
	pausing []JobPaused      // in batches in flight
	told    []JobPaused      // durable, for the engine

	spare []*entry // memory reused for changed
	usual int      // runs that finished in the last batch in which any did
}

// begin starts a round of calls whose answers wait for the same batch.
func (b *builder) begin() { b.after = 0 }

// await makes the answers of this round wait for a batch.
func (b *builder) await(seq uint64) { b.after = max(b.after, seq) }

// write adds metadata records to the batch being filled. A nil value deletes the record.
func (b *builder) write(records ...store.MetaRecord) {
	b.small = append(b.small, records...)
	b.await(b.seq)
}

// recycle empties a slice for reuse. Large ones, left behind by a burst, are released.
func recycle[S ~[]T, T any](used S) S {
	const most = 512
	if cap(used) > most {
		return nil
	}
	clear(used)
	return used[:0]
}

type sealedBatch struct {
	batch   *store.Batch
	changed []*entry
	seq     uint64
	freed   []delivery.Queue // queues of records that the batch takes out of parking
	permits []delivery.Limit // of the attempts that it ends
	paused  []JobPaused
}

// note has e's state written although nothing that its run depends on has changed, so the run does not wait.
// Jobs are noted as pending runs of theirs begin and end, which may be all the time.
func (b *builder) note(e *entry) {
	if e.seq != b.seq {
		e.seq = b.seq
		b.changed = append(b.changed, e)
	}
	b.await(b.seq)
}

// dirty reports whether e has a change that is not durable yet.
func (b *builder) dirty(e *entry) bool { return e.seq > b.durable }

// awaitsCommit reports whether e's run must not be handed out yet because what it depends on is not durable.
func (b *builder) awaitsCommit(e *entry) bool { return e.held > b.durable }

// Batch returns the next batch to make durable, and its number; nil if there is none. Batches are passed to
// Committed in the same order.
func (m *Machine) Batch() (b *store.Batch, seq uint64) {
	m.seal()
	if len(m.out.sealed) == 0 {
		return nil, 0
	}
	s := m.out.sealed[0]
	m.out.sealed = slices.Delete(m.out.sealed, 0, 1)
	m.out.flight = append(m.out.flight, s.changed...)
	m.out.spare = recycle(s.changed)
	if len(s.batch.Runs) > 0 {
		m.out.ending = append(m.out.ending, s.batch)
	}
	m.out.freed = append(m.out.freed, s.freed...)
	m.out.spent = append(m.out.spent, s.permits...)
	m.out.pausing = append(m.out.pausing, s.paused...)
	return s.batch, s.seq
}

// unchanged reports whether nothing has changed since the last batch was sealed.
func (m *Machine) unchanged() bool {
	o := &m.out
	return len(o.changed) == 0 && len(o.runs) == 0 && len(o.redrive) == 0 && len(o.trims) == 0 &&
		o.expire == nil && len(o.small) == 0 && o.events.unchanged() && o.audit.unchanged() &&
		len(m.Backfills.changed) == 0
}

// Newest returns the number of the batch that must be durable before an answer that depends on the whole
// state may be final.
func (m *Machine) Newest() uint64 {
	if m.unchanged() {
		return m.out.seq - 1
	}
	return m.out.seq
}

// seal closes the batch being filled. Later changes belong to the next one.
func (m *Machine) seal() {
	if m.unchanged() {
		return
	}
	o := &m.out
	o.settleAllCounts()
	o.small = append(o.small, m.Backfills.records()...)
	o.events.seal()
	o.audit.seal()
	b := &store.Batch{Runs: o.runs, Redrive: o.redrive, Trims: o.trims, Expire: o.expire,
		MetaRecords: lastOf(o.small)}
	if gone := goneOf(o.changed); gone < len(o.changed) {
		b.Puts = make([]store.Record, 0, len(o.changed)-gone) // records are large: the slice must not grow
	}
	if len(o.runs) > 0 {
		o.usual = len(o.runs)
	}
	var freed []delivery.Queue
	for _, e := range o.changed {
		if e.place == gone {
			b.Deletes = append(b.Deletes, e.ref)
		} else {
			b.Puts = append(b.Puts, m.agenda.record(e))
			e.fresh = false
		}
		q := e.parkedIn
		if q != nil && (e.place == gone || e.state.Phase != carillon.PhaseStaged || e.state.Queue != q.String()) {
			e.parkedIn = nil
			freed = append(freed, *q)
		}
	}
	o.sealed = append(o.sealed, sealedBatch{batch: b, changed: o.changed, seq: o.seq, freed: freed,
		permits: o.permits, paused: o.paused})
	o.changed, o.spare = o.spare, nil
	o.runs, o.redrive, o.trims, o.expire, o.small, o.permits = nil, nil, nil, nil, nil, nil
	o.paused, m.History.resultBytes = nil, 0
	o.seq++
}

// goneOf returns how many of the entries are deleted.
func goneOf(entries []*entry) int {
	n := 0
	for _, e := range entries {
		if e.place == gone {
			n++
		}
	}
	return n
}

// lastOf keeps the last of the metadata records with one key. A batch may hold each key only once.
func lastOf(small []store.MetaRecord) []store.MetaRecord {
	if len(small) < 2 {
		return small
	}
	type key struct {
		kind byte
		key  string
	}
	seen := make(map[key]bool, len(small))
	var out []store.MetaRecord
	for _, s := range slices.Backward(small) {
		if k := (key{s.Kind, s.Key}); !seen[k] {
			seen[k] = true
			out = append(out, s)
		}
	}
	slices.Reverse(out)
	return out
}

// Committed says that the batch with this number, and all before it, are durable. Entries that waited for
// that go on.
func (m *Machine) Committed(seq uint64, now int64) {
	m.out.durable = seq
	m.Queues.committed(seq)
	kept := m.out.flight[:0]
	for _, e := range m.out.flight {
		switch {
		case m.out.dirty(e):
			kept = append(kept, e)
		case e.place == gone:
			m.contents.set(e, nil)
			if e.ref.Seq == 0 && m.Records.deleting[e.ref.Key] <= seq {
				delete(m.Records.deleting, e.ref.Key)
			}
			if m.Records.entries[e.ref] == e {
				delete(m.Records.entries, e.ref)
			}
		default:
			m.Window.dropIfIdle(e)
		}
	}
	clear(m.out.flight[len(kept):])
	if m.out.flight = kept; len(kept) == 0 {
		m.out.flight = recycle(kept)
	}
	for _, q := range m.out.freed {
		m.Queues.forgetRecalled(q)
	}
	for _, l := range m.out.spent {
		m.cfg.Limiter.Free(l)
	}
	m.out.ending, m.out.freed, m.out.spent = recycle(m.out.ending), nil, nil
	m.out.told, m.out.pausing = append(m.out.told, m.out.pausing...), nil
	m.Permits.WaitAgain()
	m.Backfills.committed()
	m.Window.shrink()
	m.unblock(now)
}

// Ending finds a run that has finished in a batch that is not durable yet, and makes the answer wait for that
// batch.
func (m *Machine) Ending(id store.RunID) (store.RunRecord, bool) {
	look := func(runs []store.RunRecord, seq uint64) (r store.RunRecord, ok bool) {
		for i := range runs {
			if runs[i].ID == id {
				m.out.await(seq)
				return runs[i], true
			}
		}
		return r, false
	}
	if r, ok := look(m.out.runs, m.out.seq); ok {
		return r, true
	}
	for _, s := range slices.Backward(m.out.sealed) {
		if r, ok := look(s.batch.Runs, s.seq); ok {
			return r, true
		}
	}
	for _, b := range m.out.ending {
		if r, ok := look(b.Runs, m.out.seq-1-uint64(len(m.out.sealed))); ok {
			return r, true
		}
	}
	return store.RunRecord{}, false
}

// unblock lets blocked entries go on whose changes have become durable or whose specs have been read.
func (m *Machine) unblock(now int64) {
	waiting := m.due.blocked
	m.due.blocked, m.due.woken = m.due.woken, nil // entries that are blocked meanwhile wait for the next call
	for _, e := range waiting {
		switch e.place {
		case blocked:
			e.move(idle)
			m.resume(e, now)
		case running:
			m.agenda.rearm(e)
		case idle, ready, aside, gone:
		}
	}
	m.due.woken = recycle(waiting)
}

// resume lets an entry go on that was blocked.
func (m *Machine) resume(e *entry, now int64) {
	s := &e.state
	if s.Run.Live && s.Phase == carillon.PhaseStaged && !e.expired(now) {
		m.due.enqueue(e, now) // it was being read back from the store
		return
	}
	m.runs.wakeUp(e, now)
}
