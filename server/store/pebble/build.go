package pebble

import (
	"bytes"
	"fmt"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// builder turns batches into Pebble operations. It belongs to the committer, reads what a batch replaces, and
// keeps its buffers from batch to batch.
type builder struct {
	part      *partition
	partition int
	inline    int    // longest spec kept in the body
	read      source // sees the batch's own writes, if it needs to
	committed source // does not see them: what it says is true even if the batch is refused
	out       *pebbledb.Batch

	dues     []dueMark // entries that the batches of a commit add to the due index
	asks     bool      // the head cache is valid for the batch
	facts    []byte    // facts about the records after the batches of a commit, for the head cache
	repeats  bool      // a run is in the batch twice
	retained int64     // by how much the batch changes the number of finished runs that are not dead
	lives    []liveRun // of the live index, written after all old ones are gone: a run may change its record

	pending   *pebbledb.Iterator // over the heads of pending runs; nil until needed
	childless bool               // before the batch the partition has no pending runs

	key, key2, val, old []byte
	err                 error // the first of the writes to out: the batch is of no use then
}

// liveRun is an entry of the live index.
type liveRun struct {
	id  store.RunID
	ref store.Ref
}

// dueMark is an entry of the due index.
type dueMark struct {
	priority uint8
	due      int64
}

// begin forgets the commit before.
func (w *builder) begin() { w.dues, w.facts = w.dues[:0], w.facts[:0] }

// build writes b's operations to out. Deletes come first, so that a put after the delete of its job stays.
func (w *builder) build(b *store.Batch) error {
	defer w.closePending()
	w.childless = w.part.childless.Load()
	for _, r := range b.Deletes {
		if err := w.delete(r); err != nil {
			return err
		}
	}
	for i := range b.Puts {
		if err := w.put(&b.Puts[i]); err != nil {
			return err
		}
	}
	w.writeLive()
	if err := w.history(b); err != nil {
		return err
	}
	for _, s := range b.MetaRecords {
		w.key = appendMetaKey(w.key[:0], w.partition, s.Kind, s.Key)
		if s.Value == nil {
			w.drop(w.key, true)
		} else {
			w.set(w.key, s.Value)
		}
	}
	return w.err
}

// readsOwnWrites reports whether an operation of b must see an earlier one of b, as it must if a run repeats.
func readsOwnWrites(b *store.Batch, repeats bool) bool {
	return len(b.Trims) > 0 || b.Expire != nil || len(b.Redrive) > 0 && len(b.Runs) > 0 || repeats ||
		putsAfterDeletes(b)
}

// putsAfterDeletes reports whether a put may replace what b deletes: deleting a job deletes its pending runs.
func putsAfterDeletes(b *store.Batch) bool { return len(b.Deletes) > 0 && putsPending(b) }

// putsPending reports whether b puts a pending run.
func putsPending(b *store.Batch) bool {
	for i := range b.Puts {
		if b.Puts[i].Seq > 0 {
			return true
		}
	}
	return false
}

// runsRepeat reports whether a run is in runs twice.
func runsRepeat(runs []store.RunRecord) bool {
	const few = 12 // for which comparing all pairs is cheaper
	if len(runs) <= few {
		for i := range runs {
			for k := range i {
				if runs[k].ID == runs[i].ID {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[store.RunID]bool, len(runs))
	for i := range runs {
		if seen[runs[i].ID] {
			return true
		}
		seen[runs[i].ID] = true
	}
	return false
}

// set sets a key.
func (w *builder) set(key, value []byte) {
	w.wrote(w.out.Set(key, value, nil))
}

// drop removes a key that was set once, or more often.
func (w *builder) drop(key []byte, twice bool) {
	if twice {
		w.wrote(w.out.Delete(key, nil))
	} else {
		w.wrote(w.out.SingleDelete(key, nil))
	}
}

// wrote keeps the first error.
func (w *builder) wrote(err error) {
	if w.err == nil {
		w.err = err
	}
}

// put writes a record and replaces every index entry of its earlier version.
func (w *builder) put(r *store.Record) error {
	old, exists, err := w.head(r.Ref)
	if err != nil {
		return err
	}
	if r.State.Priority > mostHalf || r.State.Phase > mostHalf {
		return fmt.Errorf("store: %s has priority %d and phase %d: at most %d", r.Key, r.State.Priority, r.State.Phase,
			mostHalf)
	}
	next := headOf(w.partition, &r.State)
	if exists {
		next.flags |= headTwice
	}
	sp, err := w.spec(r, &old, &next)
	if err != nil {
		return err
	}
	w.val = appendBody(w.val[:0], &r.State, sp)
	w.dropIndex(r.Ref, &old, &next)
	w.writeIndex(r.Ref, &old, &next)
	return nil
}

// head returns the head of a record, from the head cache if it is there.
func (w *builder) head(r store.Ref) (h head, ok bool, err error) {
	w.key = appendHeadKey(w.key[:0], w.partition, r)
	var value []byte
	if w.old = w.recall(w.key); len(w.old) > 0 {
		f, _ := cutFact(w.old)
		value, ok = f.head, f.exists
	} else {
		value, ok, err = get(w.read, w.key)
	}
	if err != nil || !ok {
		return head{}, false, err
	}
	h, err = parseHead(w.partition, value)
	if err != nil {
		return head{}, false, fmt.Errorf("head of %s: %w", r.Key, err)
	}
	return h, true, nil
}

// recall returns what the head cache has of a record, if it is valid for the batch.
func (w *builder) recall(key []byte) []byte {
	if !w.asks {
		return nil
	}
	return w.part.heads.look(w.old[:0], key)
}

// spec decides where the record's spec is kept. A nil Spec keeps the old one.
func (w *builder) spec(r *store.Record, old, next *head) (spec, error) {
	switch {
	case r.Spec == nil && old.is(specApart):
		next.flags |= specApart
		next.specLen = old.specLen
		return spec{form: specInKey, length: old.specLen}, nil
	case r.Spec == nil && old.is(specInline):
		next.flags |= specInline
		if r.Kept != nil {
			return spec{form: specInBody, inline: r.Kept}, nil
		}
		return w.inlineSpec(r.Ref, old)
	case r.Spec == nil:
		return spec{}, nil
	}
	w.key = appendSpecKey(w.key[:0], w.partition, r.Ref)
	if len(r.Spec) > w.inline {
		next.flags |= specApart
		next.specLen = len(r.Spec)
		w.set(w.key, r.Spec)
		return spec{form: specInKey, length: len(r.Spec)}, nil
	}
	next.flags |= specInline
	if old.is(specApart) {
		w.drop(w.key, true)
	}
	return spec{form: specInBody, inline: r.Spec}, nil
}

// inlineSpec reads the spec out of an old body.
func (w *builder) inlineSpec(r store.Ref, old *head) (spec, error) {
	body, err := w.body(r, old)
	if err != nil {
		return spec{}, err
	}
	_, sp, err := splitBody(body)
	return sp, err
}

// body reads an old body.
func (w *builder) body(r store.Ref, old *head) ([]byte, error) {
	switch {
	case !old.bodyInHead():
		w.key = appendBodyKey(w.key[:0], w.partition, old, r)
	case len(old.body) > 0:
		return old.body, nil
	default: // the head came from the cache, which has no bodies
		w.key = appendHeadKey(w.key[:0], w.partition, r)
	}
	value, err := need(w.read, w.key, "body", r.Key)
	if err != nil || !old.bodyInHead() {
		return value, err
	}
	h, err := parseHead(w.partition, value)
	return h.body, err
}

// appendBodyKey appends the key that holds the body of a record that is in an index.
func appendBodyKey(b []byte, partition int, h *head, r store.Ref) []byte {
	if h.is(hasDue) {
		return appendDueKey(b, partition, h.priority, h.due, r)
	}
	return appendStagedKey(b, partition, h.queue, h.priority, h.runDue, r)
}

// dropIndex removes old's index entries that next does not write again, and flags those that it does.
func (w *builder) dropIndex(r store.Ref, old, next *head) {
	if old.is(hasDue) {
		if next.is(hasDue) && next.priority == old.priority && next.due == old.due {
			next.flags |= dueTwice
		} else {
			w.key = appendDueKey(w.key[:0], w.partition, old.priority, old.due, r)
			w.drop(w.key, old.is(dueTwice))
		}
	}
	if old.is(hasStaged) {
		if next.is(hasStaged) && next.priority == old.priority && next.queue == old.queue &&
			next.runDue == old.runDue {
			next.flags |= stagedTwice
		} else {
			w.key = appendStagedKey(w.key[:0], w.partition, old.queue, old.priority, old.runDue, r)
			w.drop(w.key, old.is(stagedTwice))
		}
	}
	if old.phase != carillon.PhaseScheduled && next.phase != old.phase {
		w.key = appendPhaseKey(w.key[:0], w.partition, old.phase, r)
		w.drop(w.key, false) // an entry is not written again while it is there
	}
	if old.is(hasLive) && !(next.is(hasLive) && next.live == old.live) {
		w.key = appendLiveKey(w.key[:0], w.partition, &old.live)
		w.drop(w.key, true)
	}
}

// writeIndex writes the head, the index entries, and the body, which is in w.val, into one of them.
func (w *builder) writeIndex(r store.Ref, old, next *head) {
	body := w.val
	if next.is(hasDue) {
		w.key = appendDueKey(w.key[:0], w.partition, next.priority, next.due, r)
		w.set(w.key, body)
		w.dues = append(w.dues, dueMark{next.priority, next.due})
		body = nil
	}
	if next.is(hasStaged) {
		w.key = appendStagedKey(w.key[:0], w.partition, next.queue, next.priority, next.runDue, r)
		w.set(w.key, body)
		body = nil
	}
	if next.phase != carillon.PhaseScheduled && next.phase != old.phase {
		w.key = appendPhaseKey(w.key[:0], w.partition, next.phase, r)
		w.set(w.key, nil)
	}
	if next.is(hasLive) && !(old.is(hasLive) && next.live == old.live) {
		w.lives = append(w.lives, liveRun{next.live, r})
	}
	w.key = appendHeadKey(w.key[:0], w.partition, r)
	w.key2 = next.append(w.key2[:0])
	w.facts = appendFact(w.facts, &fact{key: w.key, exists: true, head: w.key2})
	w.key2 = append(w.key2, body...)
	w.set(w.key, w.key2)
}

// writeLive writes the live index entries of the put records.
func (w *builder) writeLive() {
	for i := range w.lives {
		l := &w.lives[i]
		w.key = appendLiveKey(w.key[:0], w.partition, &l.id)
		w.key2 = ordered.AppendRef(w.key2[:0], l.ref)
		w.set(w.key, w.key2)
	}
}

// delete removes a record, and with a job its pending runs.
func (w *builder) delete(r store.Ref) error {
	if err := w.deleteOne(r); err != nil || r.Seq > 0 {
		return err
	}
	refs, err := w.pendingOf(r.Key)
	if err != nil {
		return err
	}
	for _, p := range refs {
		if err := w.deleteOne(p); err != nil {
			return err
		}
	}
	return nil
}

func (w *builder) deleteOne(r store.Ref) error {
	old, exists, err := w.head(r)
	if err != nil || !exists {
		return err
	}
	w.dropIndex(r, &old, &head{})
	if old.is(specApart) {
		w.key = appendSpecKey(w.key[:0], w.partition, r)
		w.drop(w.key, true)
	}
	w.key = appendHeadKey(w.key[:0], w.partition, r)
	w.facts = appendFact(w.facts, &fact{key: w.key})
	w.drop(w.key, old.is(headTwice))
	return nil
}

// pendingOf returns the pending runs of a job before the batch.
func (w *builder) pendingOf(k carillon.Key) ([]store.Ref, error) {
	if w.childless {
		return nil, nil
	}
	if w.committed.lost.any() {
		return w.pendingLeft(k)
	}
	if w.pending == nil {
		lower, upper := bounds(appendHead(nil, w.partition, kindPending))
		it, err := w.committed.NewIter(&pebbledb.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			return nil, err
		}
		w.pending = it
		if !it.First() {
			w.childless = it.Error() == nil
			return nil, damaged(it.Error())
		}
	}
	var refs []store.Ref
	prefix := appendPendingPrefix(nil, w.partition, k)
	for ok := w.pending.SeekGE(prefix); ok && bytes.HasPrefix(w.pending.Key(), prefix); ok = w.pending.Next() {
		r, err := ordered.ParseRef(w.pending.Key()[headLen:])
		if err != nil {
			return nil, err
		}
		refs = append(refs, r)
	}
	return refs, damaged(w.pending.Error())
}

// pendingLeft is pendingOf for a damaged store: lost pending runs do not keep their job from being deleted,
// and are not dispatched any more.
func (w *builder) pendingLeft(k carillon.Key) (refs []store.Ref, err error) {
	lower, upper := bounds(appendPendingPrefix(nil, w.partition, k))
	err = eachLeft(w.committed, lower, upper, func(key, _ []byte) (bool, error) {
		r, err := ordered.ParseRef(key[headLen:])
		refs = append(refs, r)
		return true, err
	})
	return refs, err
}

func (w *builder) closePending() {
	if w.pending != nil {
		_ = w.pending.Close() // its errors were returned where it was read
	}
	w.pending = nil
}

// bounds returns the first key that begins with prefix and the first one after all of them.
func bounds(prefix []byte) (lower, upper []byte) {
	return prefix, ordered.After(prefix)
}
