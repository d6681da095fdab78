package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

var _ store.Examiner = (*Store)(nil)

// Examine implements [store.Examiner]: it reads all keys of a partition, and for each what must be beside it.
func (s *Store) Examine(ctx context.Context, partition int, term store.Term,
	found func(store.Fault) error) error {
	p, err := s.partition(partition)
	if err != nil {
		return err
	}
	sh := &shard{s: s, number: partition, term: term, part: p}
	return s.engines.use(func(e *engine) error {
		snapshot := e.db.NewSnapshot()
		defer snapshot.Close()
		x := &examiner{source: source{snapshot, e.lost}, ctx: ctx, shard: sh, partition: partition,
			found: found, ops: e.db.NewBatch(), lived: map[string]struct{}{}}
		err := x.examine()
		if err == nil && e.lost.any() {
			err = fmt.Errorf("%w: files of the folder cannot be read, and what is in them is not examined: "+
				"carillon store check names them", store.ErrDamaged)
		}
		return errors.Join(err, x.ops.Close())
	})
}

// examiner looks at the keys of one partition. What mends a fault is written before the fault is told, that
// of several at once.
type examiner struct {
	source
	ctx       context.Context
	shard     *shard
	partition int
	found     func(store.Fault) error

	ops    *pebbledb.Batch
	faults []store.Fault       // that ops mends
	lived  map[string]struct{} // entries of the live index that were told of beside their records
}

// atOnce is how many faults are mended by one write.
const atOnce = 256

func (x *examiner) examine() error {
	steps := []struct {
		kind byte
		look func(key, value []byte) error
	}{
		{kindHead, x.head}, {kindPending, x.head}, {kindDue, x.due}, {kindStaged, x.staged},
		{kindPhase, x.phase}, {kindSpec, x.spec}, {kindLive, x.live}, {kindHistory, x.run}, {kindAge, x.age},
		{kindFinished, x.finished},
	}
	known := []byte{kindMetaRecord}
	for _, step := range steps {
		known = append(known, step.kind)
		lower, upper := bounds(appendHead(nil, x.partition, step.kind))
		if err := x.scan(lower, upper, step.look); err != nil {
			return err
		}
	}
	lower, _ := bounds(appendHead(nil, x.partition, 0))
	_, upper := bounds(appendHead(nil, x.partition, 255))
	if err := x.scan(lower, upper, func(key, _ []byte) error {
		if len(key) >= headLen && bytes.IndexByte(known, key[headLen-1]) >= 0 {
			return nil
		}
		return x.unknown("key", key)
	}); err != nil {
		return err
	}
	return x.mend()
}

// scan calls f with each key and value that can be read.
func (x *examiner) scan(lower, upper []byte, f func(key, value []byte) error) error {
	return eachLeft(x.source, lower, upper, func(key, value []byte) (bool, error) {
		if err := x.ctx.Err(); err != nil {
			return false, err
		}
		return true, f(bytes.Clone(key), bytes.Clone(value))
	})
}

// unknown tells of a key that this package cannot have written.
func (x *examiner) unknown(what string, key []byte) error {
	const most = 64
	what = fmt.Sprintf("%s %q", what, key[:min(len(key), most)])
	return x.tell(store.Fault{Kind: store.FaultKeyUnknown, What: what})
}

// tell tells a fault that nothing mends.
func (x *examiner) tell(f store.Fault) error { return x.found(f) }

// mendable tells a fault, after do has been done if the examiner mends.
func (x *examiner) mendable(f store.Fault, do func(out *pebbledb.Batch) error) error {
	if x.shard.term.IsZero() || x.lost.any() {
		return x.found(f)
	}
	if err := do(x.ops); err != nil {
		return err
	}
	if x.faults = append(x.faults, f); len(x.faults) < atOnce {
		return nil
	}
	return x.mend()
}

// remove mends by removing a key, however often it was set.
func remove(key []byte) func(*pebbledb.Batch) error {
	return func(out *pebbledb.Batch) error { return out.Delete(key, nil) }
}

// set mends by setting a key. The Delete before hides older values, which the SingleDelete of a later write
// would bring back.
func set(key, value []byte) func(*pebbledb.Batch) error {
	return func(out *pebbledb.Batch) error {
		return errors.Join(out.Delete(key, nil), out.Set(key, value, nil))
	}
}

// mend writes what mends the faults found so far, if the term is in force, and tells them.
func (x *examiner) mend() error {
	if len(x.faults) == 0 {
		return nil
	}
	s, part := x.shard.s, x.shard.part
	err := s.await(x.ctx, &request{claim: func(out *pebbledb.Batch) error {
		if !s.owners.holdAll([]change{{shard: x.shard}}) {
			return store.ErrFenced
		}
		return out.Apply(x.ops, nil)
	}})
	part.heads.forget()
	part.marks.forget()
	part.childless.Store(false)
	if err != nil {
		return err
	}
	x.ops.Reset()
	faults := x.faults
	x.faults = nil
	for _, f := range faults {
		f.Mended = true
		if err := x.found(f); err != nil {
			return err
		}
	}
	return nil
}

// unreadable tells of a record or an entry that cannot be decoded. An error that is not about its bytes ends
// the examination.
func (x *examiner) unreadable(kind store.FaultKind, ref store.Ref, err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return x.tell(store.Fault{Kind: kind, Ref: ref, What: err.Error()})
}

// head looks at a record: its body, its spec, and its index entries.
func (x *examiner) head(key, value []byte) error {
	ref, err := ordered.ParseRef(key[headLen:])
	if err != nil {
		return x.unreadable(store.FaultKeyUnknown, ref, err)
	}
	v := view{source: x.source, partition: x.partition}
	r, err := v.recordOf(ref, value, 0)
	if err != nil {
		return x.unreadable(store.FaultRecordUnreadable, ref, err)
	}
	h, err := parseHead(x.partition, value)
	if err != nil {
		return err // recordOf has decoded it
	}
	want := headOf(x.partition, &r.State)
	const indexed = hasDue | hasStaged | hasLive
	if h.flags&indexed != want.flags&indexed || h.priority != want.priority || h.due != want.due ||
		h.phase != want.phase || h.queue != want.queue || h.runDue != want.runDue || h.live != want.live {
		return x.tell(store.Fault{Kind: store.FaultRecordUnreadable, Ref: ref,
			What: "its entry by name says other things than its contents"})
	}
	return errors.Join(x.headStaged(ref, &h), x.headPhase(ref, &h), x.headLive(ref, &h))
}

// headStaged makes sure that a parked record is in its queue. If that entry held the record it was not
// readable, so the due index holds it.
func (x *examiner) headStaged(ref store.Ref, h *head) error {
	if !h.is(hasStaged) {
		return nil
	}
	key := appendStagedKey(nil, x.partition, h.queue, h.priority, h.runDue, ref)
	if _, ok, err := get(x.source, key); err != nil || ok {
		return unlessLost(err)
	}
	f := store.Fault{Kind: store.FaultStagedMissing, Ref: ref, What: fmt.Sprintf("queue %q", h.queue)}
	return x.mendable(f, set(key, nil))
}

func (x *examiner) headPhase(ref store.Ref, h *head) error {
	if h.phase == carillon.PhaseScheduled {
		return nil
	}
	key := appendPhaseKey(nil, x.partition, h.phase, ref)
	if _, ok, err := get(x.source, key); err != nil || ok {
		return unlessLost(err)
	}
	return x.mendable(store.Fault{Kind: store.FaultPhaseMissing, Ref: ref, What: "phase " + h.phase.String()},
		set(key, nil))
}

func (x *examiner) headLive(ref store.Ref, h *head) error {
	if !h.is(hasLive) {
		return nil
	}
	key := appendLiveKey(nil, x.partition, &h.live)
	value, ok, err := get(x.source, key)
	if err != nil {
		return unlessLost(err)
	}
	want := ordered.AppendRef(nil, ref)
	switch {
	case ok && bytes.Equal(value, want):
		return nil
	case ok:
		if taken, err := x.lives(value, &h.live); err != nil || taken {
			return errors.Join(err, x.tell(store.Fault{Kind: store.FaultLiveMissing, Ref: ref, Run: h.live,
				What: "another record has a run of this id"}))
		}
	}
	if ok {
		x.lived[string(key)] = struct{}{}
	}
	f := store.Fault{Kind: store.FaultLiveMissing, Ref: ref, Run: h.live, What: "its unfinished run"}
	return x.mendable(f, set(key, want))
}

// lives reports whether the record that an entry of the live index names has the unfinished run.
func (x *examiner) lives(entry []byte, id *store.RunID) (bool, error) {
	c := ordered.Cutter{B: entry}
	ref := c.Ref()
	if c.Bad {
		return false, nil // an entry that names nothing
	}
	h, _, err := x.headOf(ref)
	return h != nil && h.is(hasLive) && h.live == *id, err
}

// headOf reads the head of a record; ok is false if there is none. It is nil if it cannot be read, which is
// told of where the heads are read.
func (x *examiner) headOf(ref store.Ref) (h *head, ok bool, err error) {
	value, ok, err := get(x.source, appendHeadKey(nil, x.partition, ref))
	if err != nil || !ok {
		return nil, errors.Is(err, store.ErrDamaged), unlessLost(err)
	}
	read, err := parseHead(x.partition, value)
	if err != nil {
		return nil, true, unlessLost(err)
	}
	return &read, true, nil
}

// due looks at an entry of the due index, which holds a body.
func (x *examiner) due(key, _ []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	priority, due, ref := c.Byte(), c.Time(), c.Ref()
	if err := c.End(); err != nil {
		return x.unknown("due entry", key)
	}
	return x.body(key, ref, store.FaultDueDangling, "the due index", func(h *head) bool {
		return h.is(hasDue) && h.priority == priority && h.due == due
	})
}

// staged looks at an entry of the staged index, which may hold a body.
func (x *examiner) staged(key, value []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	queue, priority, due, ref := c.Text(), c.Byte(), c.Time(), c.Ref()
	if err := c.End(); err != nil {
		return x.unknown("staged entry", key)
	}
	agrees := func(h *head) bool {
		return h.is(hasStaged) && h.queue == queue && h.priority == priority && h.runDue == due
	}
	if len(value) > 0 {
		return x.body(key, ref, store.FaultStagedDangling, "queue "+queue, agrees)
	}
	h, ok, err := x.headOf(ref)
	if err != nil || ok && (h == nil || agrees(h)) {
		return err
	}
	f := store.Fault{Kind: store.FaultStagedDangling, Ref: ref, What: fmt.Sprintf("queue %q", queue)}
	return x.mendable(f, remove(key))
}

// body looks at an index entry with a body. Without an entry by name it may be all that is left of a job: it
// is not removed.
func (x *examiner) body(key []byte, ref store.Ref, kind store.FaultKind, where string,
	agrees func(*head) bool) error {
	h, ok, err := x.headOf(ref)
	switch {
	case err != nil:
		return err
	case !ok:
		return x.tell(store.Fault{Kind: store.FaultNameMissing, Ref: ref, What: "its contents are in " + where})
	case h == nil, agrees(h):
		return nil
	}
	f := store.Fault{Kind: kind, Ref: ref, What: "an entry of another time in " + where}
	return x.mendable(f, remove(key))
}

func (x *examiner) phase(key, _ []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	phase, _, ref := carillon.Phase(c.Byte()), c.Byte(), c.Ref()
	if err := c.End(); err != nil {
		return x.unknown("phase entry", key)
	}
	h, ok, err := x.headOf(ref)
	same := bytes.Equal(key, appendPhaseKey(nil, x.partition, phase, ref)) // jobs and pending runs are apart
	if err != nil || ok && (h == nil || h.phase == phase && same) {
		return err
	}
	return x.mendable(store.Fault{Kind: store.FaultPhaseDangling, Ref: ref, What: "phase " + phase.String()},
		remove(key))
}

func (x *examiner) spec(key, _ []byte) error {
	ref, err := ordered.ParseRef(key[headLen:])
	if err != nil {
		return x.unknown("spec", key)
	}
	h, ok, err := x.headOf(ref)
	if err != nil || ok && (h == nil || h.is(specApart)) {
		return err
	}
	return x.mendable(store.Fault{Kind: store.FaultSpecDangling, Ref: ref, What: "a spec that no record has"},
		remove(key))
}

func (x *examiner) live(key, value []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	id := cutRun(&c, x.partition)
	if err := c.End(); err != nil {
		return x.unknown("live entry", key)
	}
	ref, _ := ordered.ParseRef(value) // one that names nothing has no record
	lives, err := x.lives(value, &id)
	if _, told := x.lived[string(key)]; err != nil || lives || told {
		return err
	}
	f := store.Fault{Kind: store.FaultLiveDangling, Ref: ref, Run: id, What: "no record has this run"}
	return x.mendable(f, remove(key))
}

// run looks at a finished run and its two index entries.
func (x *examiner) run(key, value []byte) error {
	r, err := codec.DecodeRun(value)
	if err != nil {
		return x.unreadable(store.FaultRunUnreadable, store.Ref{}, err)
	}
	ref := store.Ref{Key: r.Key}
	if !bytes.Equal(key, appendHistoryKey(nil, x.partition, &r.ID)) {
		return x.tell(store.Fault{Kind: store.FaultRunUnreadable, Ref: ref, Run: r.ID,
			What: "it is kept under the key of another run"})
	}
	dead := notDead
	if r.Status == carillon.RunDead {
		dead = isDead
	}
	age, finished := appendAgeKey(nil, x.partition, r.Expires, &r.ID), appendFinishedKey(nil, x.partition, &r)
	got, ok, err := get(x.source, age)
	if err == nil && (!ok || !bytes.Equal(got, dead)) {
		err = x.mendable(store.Fault{Kind: store.FaultAgeMissing, Ref: ref, Run: r.ID,
			What: "it would stay beyond its retention"}, set(age, dead))
	}
	if err := unlessLost(err); err != nil {
		return err
	}
	if _, ok, err := get(x.source, finished); err != nil || ok {
		return unlessLost(err)
	}
	return x.mendable(store.Fault{Kind: store.FaultStatusMissing, Ref: ref, Run: r.ID,
		What: "status " + r.Status.String()}, set(finished, nil))
}

func (x *examiner) age(key, _ []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	expires, id := c.Time(), cutRun(&c, x.partition)
	if err := c.End(); err != nil {
		return x.unknown("retention entry", key)
	}
	return x.ofRun(key, &id, store.FaultAgeDangling, func(r *store.RunRecord) bool {
		return r.Expires == expires
	})
}

func (x *examiner) finished(key, _ []byte) error {
	c := ordered.Cutter{B: key[headLen:]}
	c.Byte() // status
	c.Text() // namespace
	c.Time() // finished
	id := cutRun(&c, x.partition)
	if err := c.End(); err != nil {
		return x.unknown("status entry", key)
	}
	return x.ofRun(key, &id, store.FaultStatusDangling, func(r *store.RunRecord) bool {
		return bytes.Equal(key, appendFinishedKey(nil, x.partition, r))
	})
}

// ofRun looks at an index entry of a finished run.
func (x *examiner) ofRun(key []byte, id *store.RunID, kind store.FaultKind,
	agrees func(*store.RunRecord) bool) error {
	value, ok, err := get(x.source, appendHistoryKey(nil, x.partition, id))
	if err != nil {
		return unlessLost(err)
	}
	f := store.Fault{Kind: kind, Run: *id, What: "no such run is in the history"}
	if !ok {
		return x.mendable(f, remove(key))
	}
	r, err := codec.DecodeRun(value)
	if err != nil {
		return unlessLost(err) // that is told of where the runs are read
	}
	if r.ID == *id && agrees(&r) {
		return nil
	}
	f.Ref, f.What = store.Ref{Key: r.Key}, "the run's record says something else"
	return x.mendable(f, remove(key))
}
