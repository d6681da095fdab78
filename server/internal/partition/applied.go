package partition

import (
	"encoding/binary"

	"github.com/carillonhq/carillon/server/store"
)

// AppliedMarkers are the metadata records (store.KindApplied) of the batch puts whose share is stored in the
// partition. A marker is kept while the batch's commit intents may exist, and a minute more, in which the
// share may come again.
type AppliedMarkers struct {
	out     *builder
	byBatch map[string]appliedMark
}

// appliedMark is a store.KindApplied record in memory.
type appliedMark struct {
	coordinator int    // the partition that holds the intents
	seq         uint64 // the batch that holds the record; 0: it was there at takeover
}

func newAppliedMarkers(out *builder) *AppliedMarkers {
	return &AppliedMarkers{out: out, byBatch: map[string]appliedMark{}}
}

// load takes the records, at takeover.
func (a *AppliedMarkers) load(records []store.MetaRecord) {
	for _, r := range records {
		coordinator, _ := binary.Uvarint(r.Value)
		a.byBatch[r.Key] = appliedMark{coordinator: int(coordinator)}
	}
}

// add records that a share is stored.
func (a *AppliedMarkers) add(batch string, coordinator int) {
	a.byBatch[batch] = appliedMark{coordinator: coordinator, seq: a.out.seq}
	a.out.write(store.MetaRecord{Kind: store.KindApplied, Key: batch,
		Value: binary.AppendUvarint(nil, uint64(coordinator))})
}

// again reports whether a share is stored already. The marker is then written once more, and the answer waits
// for that: if the store was reset to an older state, which has no marker, it refuses the batch.
func (a *AppliedMarkers) again(batch string) bool {
	mark, stored := a.byBatch[batch]
	switch {
	case !stored:
		return false
	case mark.seq == a.out.seq:
		a.out.await(mark.seq)
	default:
		a.add(batch, mark.coordinator)
	}
	return true
}

// Coordinators returns the batches that have a marker, each with the partition that holds its intents.
func (a *AppliedMarkers) Coordinators() map[string]int {
	out := make(map[string]int, len(a.byBatch))
	for id, mark := range a.byBatch {
		out[id] = mark.coordinator
	}
	return out
}

// Remove deletes the marker of a batch whose intents are durably gone.
func (a *AppliedMarkers) Remove(batch string) {
	if _, stored := a.byBatch[batch]; stored {
		delete(a.byBatch, batch)
		a.out.write(store.MetaRecord{Kind: store.KindApplied, Key: batch})
	}
}
