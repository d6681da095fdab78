package contents

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/tidwall/btree"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// history is the finished runs of a partition. As with records, a run is never changed, only replaced.
type history struct {
	byID     *btree.BTreeG[*store.RunRecord]
	byJob    *btree.BTreeG[*store.RunRecord]
	byStatus *btree.BTreeG[*store.RunRecord]
	byAge    *btree.BTreeG[*store.RunRecord]
	dead     int // of them
}

func newHistory() *history {
	return &history{
		byID:     newTree(lessByID),
		byJob:    newTree(lessByJob),
		byStatus: newTree(lessByStatus),
		byAge:    newTree(lessByAge),
	}
}

// lessByID orders by identity.
func lessByID(a, b *store.RunRecord) bool { return compareID(&a.ID, &b.ID) < 0 }

// lessByJob orders by job, newest scheduled time first.
func lessByJob(a, b *store.RunRecord) bool {
	return cmp.Or(
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
		cmp.Compare(b.ID.Scheduled, a.ID.Scheduled),
		compareID(&a.ID, &b.ID)) < 0
}

// lessByStatus orders by status and namespace, newest finished first.
func lessByStatus(a, b *store.RunRecord) bool {
	return cmp.Or(
		cmp.Compare(a.Status, b.Status),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(b.Finished, a.Finished),
		compareID(&a.ID, &b.ID)) < 0
}

// lessByAge orders by the end of retention.
func lessByAge(a, b *store.RunRecord) bool {
	return cmp.Or(cmp.Compare(a.Expires, b.Expires), compareID(&a.ID, &b.ID)) < 0
}

// compareID is some order of the identities of a partition: what else an index compares is not unique.
func compareID(a, b *store.RunID) int {
	return cmp.Or(
		bytes.Compare(a.UID[:], b.UID[:]),
		cmp.Compare(a.Scheduled, b.Scheduled),
		cmp.Compare(a.Cause, b.Cause),
		cmp.Compare(a.Seq, b.Seq))
}

// of finds the run of an identity; nil if there is none.
func (h *history) of(id store.RunID) *store.RunRecord {
	run, ok := h.byID.Get(&store.RunRecord{ID: id})
	if !ok || run.ID != id {
		return nil
	}
	return run
}

func (h *history) copied() *history {
	return &history{byID: h.byID.Copy(), byJob: h.byJob.Copy(), byStatus: h.byStatus.Copy(),
		byAge: h.byAge.Copy(), dead: h.dead}
}

func (h *history) put(run *store.RunRecord, t *Touched) {
	kept := handRun(run)
	kept.Cursor = nil
	h.remove(run.ID, t)
	t.run(kept.ID, kept.Key)
	h.byID.Set(&kept)
	h.byJob.Set(&kept)
	h.byAge.Set(&kept)
	h.byStatus.Set(&kept)
	if kept.Status == carillon.RunDead {
		h.dead++
	}
}

func (h *history) remove(id store.RunID, t *Touched) {
	run := h.of(id)
	if run == nil {
		return
	}
	t.run(id, run.Key)
	h.byID.Delete(run)
	h.byJob.Delete(run)
	h.byAge.Delete(run)
	h.byStatus.Delete(run)
	if run.Status == carillon.RunDead {
		h.dead--
	}
}

// redrive takes a dead run out of the history.
func (h *history) redrive(ref store.RunRef, t *Touched) {
	if run := h.of(ref.ID); run != nil && run.Key == ref.Key && run.Status == carillon.RunDead {
		h.remove(ref.ID, t)
	}
}

// trim keeps a job's newest runs; the dead ones are not its business.
func (h *history) trim(trim store.Trim, t *Touched) {
	kept := 0
	var gone []store.RunID
	newest := &store.RunRecord{Key: trim.Key, ID: store.RunID{Scheduled: math.MaxInt64}}
	h.byJob.Ascend(newest, func(run *store.RunRecord) bool {
		switch {
		case run.Key != trim.Key:
			return false
		case run.Status == carillon.RunDead:
		case kept < trim.Keep:
			kept++
		default:
			gone = append(gone, run.ID)
		}
		return true
	})
	for _, id := range gone {
		h.remove(id, t)
	}
}

// expire removes the runs whose retention has ended, and those that are too many.
func (h *history) expire(e store.Expire, t *Touched) {
	excess := h.byAge.Len() - h.dead - e.Most
	var gone []store.RunID
	h.byAge.Scan(func(run *store.RunRecord) bool {
		expired := run.Expires <= e.Before
		if len(gone) >= e.Limit || !expired && excess <= 0 {
			return false
		}
		dead := run.Status == carillon.RunDead
		if expired || !dead {
			gone = append(gone, run.ID)
		}
		if !dead {
			excess--
		}
		return true
	})
	for _, id := range gone {
		h.remove(id, t)
	}
}

// list returns the runs of a query after a position, which is nil for the first page.
func (h *history) list(q store.RunQuery, after *store.RunRecord) []store.RunRecord {
	if q.ID != nil {
		if run := h.of(*q.ID); run != nil {
			return []store.RunRecord{withCursor(run)}
		}
		return nil
	}
	tree, less, from := h.byJob, lessByJob, &store.RunRecord{ID: store.RunID{Scheduled: math.MaxInt64}}
	belongs := func(run *store.RunRecord) bool { return run.Key == *q.Job }
	switch {
	case q.Job != nil:
		from.Key = *q.Job
	case q.All:
		tree, less, from = h.byID, lessByID, &store.RunRecord{ID: store.RunID{Scheduled: math.MinInt64}}
		q.Status, q.Since, q.Until = nil, 0, 0
		belongs = func(*store.RunRecord) bool { return true }
	default:
		tree, less = h.byStatus, lessByStatus
		from.Key.Namespace, from.Status, from.Finished = q.Namespace, *q.Status, math.MaxInt64
		if from.ID.Scheduled = math.MinInt64; q.Until != 0 {
			from.Finished = q.Until - 1
		}
		belongs = func(run *store.RunRecord) bool {
			return run.Status == *q.Status && run.Key.Namespace == q.Namespace && q.Within(run.Finished)
		}
	}
	if after != nil && less(from, after) {
		from = after
	}
	var out []store.RunRecord
	tree.Ascend(from, func(run *store.RunRecord) bool {
		if len(out) >= q.Limit || !belongs(run) {
			return false
		}
		if (after == nil || less(after, run)) && (q.Status == nil || *q.Status == run.Status) &&
			q.Within(run.Finished) {
			out = append(out, withCursor(run))
		}
		return true
	})
	return out
}

// handRun copies a run.
func handRun(run *store.RunRecord) store.RunRecord {
	out := *run
	out.Errors = slices.Clone(run.Errors)
	out.Response = bytes.Clone(run.Response)
	out.Spec = bytes.Clone(run.Spec)
	out.Labels = maps.Clone(run.Labels)
	return out
}

// withCursor copies a run for a query. Its cursor is a run record of nothing but what the indexes compare.
func withCursor(run *store.RunRecord) store.RunRecord {
	out := handRun(run)
	position := store.RunRecord{Key: run.Key, ID: run.ID, Status: run.Status, Finished: run.Finished}
	out.Cursor = codec.AppendRun(nil, &position)
	return out
}

// decodeCursor reads a cursor; no cursor is nil.
func decodeCursor(b []byte) (*store.RunRecord, error) {
	if b == nil {
		return nil, nil
	}
	run, err := codec.DecodeRun(b)
	if err != nil {
		return nil, err
	}
	return &run, nil
}
