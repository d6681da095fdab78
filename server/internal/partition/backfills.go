package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Backfills are the backfills of a partition: all unfinished ones, and those whose end is not durable yet.
type Backfills struct {
	out       *builder
	partition int
	byID      map[store.RunID]*backfill
	ofJob     map[carillon.Key][]*backfill // unfinished ones, by sequence
	timers    heaps.Of[*backfill]
	waiting   []*backfill // for a record to be read
	changed   []*backfill // in the batch being filled
	ended     []*backfill // finished or deleted; kept until that is durable
}

func newBackfills(out *builder, partition int) *Backfills {
	return &Backfills{out: out, partition: partition, byID: map[store.RunID]*backfill{},
		ofJob: map[carillon.Key][]*backfill{}}
}

// load takes the records of unfinished backfills, at takeover. Records that cannot be decoded are left out
// and named in the error.
func (b *Backfills) load(records []store.MetaRecord, now int64) error {
	var damaged []error
	for _, r := range records {
		rec, err := codec.DecodeBackfill(r.Value)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("backfill %x: %w", r.Key, err))
			continue
		}
		b.setWake(b.add(rec), now)
	}
	return errors.Join(damaged...)
}

// start creates a backfill.
func (b *Backfills) start(rec store.Backfill) *backfill {
	f := b.add(rec)
	b.note(f)
	b.setWake(f, rec.Created)
	return f
}

// add brings an unfinished backfill into memory.
func (b *Backfills) add(rec store.Backfill) *backfill {
	id := store.RunID{Partition: uint16(b.partition), UID: rec.UID, Cause: carillon.CauseBackfill, Seq: rec.Seq}
	f := &backfill{id: id, rec: rec, timer: -1}
	b.byID[id] = f
	b.ofJob[rec.Key] = append(b.ofJob[rec.Key], f)
	return f
}

// Get returns a backfill that is in memory, as all unfinished ones are; ok is false if it is not.
func (b *Backfills) Get(id store.RunID) (view carillon.Backfill, ok bool) {
	f := b.byID[id]
	if f == nil {
		return view, false
	}
	b.out.await(f.seq)
	return BackfillOf(&f.rec, b.partition), !f.gone
}

// OfJob returns those of a job that are in memory.
func (b *Backfills) OfJob(key carillon.Key) []carillon.Backfill {
	var out []carillon.Backfill
	for _, f := range b.ofJob[key] {
		b.out.await(f.seq)
		out = append(out, BackfillOf(&f.rec, b.partition))
	}
	for _, f := range b.ended {
		if f.rec.Key != key {
			continue
		}
		b.out.await(f.seq)
		if !f.gone {
			out = append(out, BackfillOf(&f.rec, b.partition))
		}
	}
	return out
}

// OpenRuns returns the records that the cancel of a backfill acts on: its job and its unfinished runs.
func (b *Backfills) OpenRuns(id store.RunID) []store.Ref {
	f := b.byID[id]
	if f == nil || f.gone {
		return nil
	}
	refs := []store.Ref{{Key: f.rec.Key}}
	for _, seq := range f.rec.Open {
		refs = append(refs, store.Ref{Key: f.rec.Key, Seq: seq})
	}
	return refs
}

// cancel stops a backfill from making runs. It returns nil if there is nothing to stop.
func (b *Backfills) cancel(id store.RunID) *backfill {
	f := b.byID[id]
	if f == nil || f.gone || f.rec.Status != carillon.BackfillRunning {
		return nil
	}
	f.rec.Status, f.rec.Next = carillon.BackfillCancelled, 0
	b.note(f)
	return f
}

// Sweep removes the records of ended backfills whose retention is over, and records that cannot be decoded.
func (b *Backfills) Sweep(records []store.MetaRecord, now int64) {
	for _, r := range records {
		if rec, err := codec.DecodeBackfill(r.Value); err != nil || rec.Expires <= now {
			b.out.small = append(b.out.small, store.MetaRecord{Kind: store.KindBackfill, Key: r.Key})
		}
	}
}

// nextDue takes the backfill that goes on first from the timers, nil if the time of none has come.
func (b *Backfills) nextDue(now int64) *backfill {
	if len(b.timers) == 0 || b.timers[0].wake > now {
		return nil
	}
	f := b.timers[0]
	b.setWake(f, 0)
	return f
}

// awaitRead has f go on when a record has come into memory.
func (b *Backfills) awaitRead(f *backfill) {
	if !f.waits {
		f.waits = true
		b.waiting = append(b.waiting, f)
	}
}

// takeWaiting returns the backfills that have waited for a record.
func (b *Backfills) takeWaiting() []*backfill {
	waiting := b.waiting
	b.waiting = nil
	for _, f := range waiting {
		f.waits = false
	}
	return waiting
}

// runEnded counts the end of a pending run for the backfill that made it, and wakes the job's backfills that
// may have waited for that. A redriven run has been counted already.
func (b *Backfills) runEnded(e *entry, now int64, status carillon.RunStatus) {
	for _, f := range b.ofJob[e.ref.Key] {
		if e.state.Run.Cause == carillon.CauseBackfill && f.rec.Seq == e.state.Run.Seq &&
			f.count(e.ref.Seq, status) {
			b.note(f)
		}
		if f.timer < 0 {
			b.setWake(f, now)
		}
	}
}

// lost notes that the store does not have a record, and neither has memory. It should have those that
// backfills need; if it has lost one, they must not wait for it forever.
func (b *Backfills) lost(ref store.Ref) {
	if ref.Seq == 0 {
		b.drop(ref.Key)
		return
	}
	for _, f := range b.ofJob[ref.Key] {
		if f.count(ref.Seq, carillon.RunCancelled) {
			b.note(f)
		}
	}
}

// drop ends the backfills of a job that is deleted. Their records are deleted with it.
func (b *Backfills) drop(key carillon.Key) {
	for _, f := range slices.Clone(b.ofJob[key]) {
		f.gone = true
		b.end(f)
	}
}

// end takes a backfill out of the unfinished ones.
func (b *Backfills) end(f *backfill) {
	b.setWake(f, 0)
	b.note(f)
	key := f.rec.Key
	rest := slices.DeleteFunc(b.ofJob[key], func(o *backfill) bool { return o == f })
	if b.ofJob[key] = rest; len(rest) == 0 {
		delete(b.ofJob, key)
	}
	b.ended = append(b.ended, f)
}

// note has a backfill's record written.
func (b *Backfills) note(f *backfill) {
	if f.seq != b.out.seq {
		f.seq = b.out.seq
		b.changed = append(b.changed, f)
	}
	b.out.await(b.out.seq)
}

// records returns the records of the backfills that have changed, for the batch that is sealed.
func (b *Backfills) records() []store.MetaRecord {
	var out []store.MetaRecord
	for _, f := range b.changed {
		unfinished := store.MetaRecord{Kind: store.KindBackfill, Key: backfillKey(UnfinishedBackfills, f.id)}
		if f.goesOn() {
			unfinished.Value = codec.AppendBackfill(nil, &f.rec)
		}
		out = append(out, unfinished)
		if !f.gone && f.rec.Finished != 0 {
			out = append(out, store.MetaRecord{Kind: store.KindBackfill, Key: EndedBackfill(f.id),
				Value: codec.AppendBackfill(nil, &f.rec)})
		}
	}
	b.changed = nil
	return out
}

// committed drops from memory the backfills whose end is durable.
func (b *Backfills) committed() {
	b.ended = slices.DeleteFunc(b.ended, func(f *backfill) bool {
		over := f.seq <= b.out.durable
		if over {
			delete(b.byID, f.id)
		}
		return over
	})
}

// setWake sets when a backfill goes on; 0: not by itself.
func (b *Backfills) setWake(f *backfill, at int64) {
	f.wake = at
	switch {
	case at == 0:
		b.timers.Remove(f)
	case f.timer >= 0:
		b.timers.Fix(f.timer)
	default:
		b.timers.Add(f)
	}
}

// Before orders backfills by wake, then job and sequence.
func (f *backfill) Before(o *backfill) bool {
	if f.wake != o.wake {
		return f.wake < o.wake
	}
	return store.Ref{Key: f.rec.Key, Seq: f.rec.Seq}.Compare(store.Ref{Key: o.rec.Key, Seq: o.rec.Seq}) < 0
}

// At is the backfill's index among the timers; -1: it has none.
func (f *backfill) At() *int32 { return &f.timer }
