package engine

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// roundRecords are the records that are brought into a partition's memory for its rounds and calls, under one
// term. Only the lane's goroutine uses them.
//
// The lane also reads beside the rounds, for calls that wait in mailboxes (ahead.go). While it does, batches
// go on to be sent: a record that is in one of these may be read in its old form, so it is not taken.
type roundRecords struct {
	m       memory
	reads   *reads
	touched []store.Ref        // in memory until the end of the round
	absent  map[store.Ref]bool // known not to be in the store, for this round
	ahead   bool               // the lane reads for waiting calls
	changed map[store.Ref]bool // sent to the store while the lane reads
}

// memory is the part of a machine that holds records.
type memory interface {
	Has(ref store.Ref) bool
	Load(records []store.Record, now int64)
	Settle(refs []store.Ref)
	// Holds returns where an unfinished run is, if it is in memory.
	Holds(id store.RunID) (ref store.Ref, ok bool)
	// Absent returns the next pending runs of a job, after run last, that are not in memory.
	Absent(key carillon.Key, last uint64, n int) []store.Ref
	// Ending returns a finished run that is in a batch on its way to the store.
	Ending(id store.RunID) (store.RunRecord, bool)
}

// inMemory is the memory of a machine.
type inMemory struct {
	*partition.Machine // Load, Ending
	*partition.Records // Has, Holds, Absent
	*partition.Window  // Settle
}

func newRoundRecords(m memory, r *reads) roundRecords {
	return roundRecords{m: m, reads: r, absent: map[store.Ref]bool{}, changed: map[store.Ref]bool{}}
}

// bring loads the records that operations need, and those of unfinished runs, with one read for all of them.
func (r *roundRecords) bring(refs []store.Ref, live []store.RunID, now int64) error {
	var missing []store.Ref
	var seen map[store.Ref]bool // usually nothing is missing
	want := func(ref store.Ref) {
		if !seen[ref] && !r.absent[ref] && !r.m.Has(ref) {
			if seen == nil {
				seen = map[store.Ref]bool{}
			}
			seen[ref] = true
			missing = append(missing, ref)
		}
	}
	for _, ref := range refs {
		want(ref)
	}
	for _, id := range live {
		ref, here := r.m.Holds(id)
		if !here {
			var err error
			if ref, here, err = r.reads.live(id); err != nil {
				return err
			}
		}
		if here {
			want(ref)
			if ref.Seq != 0 {
				want(ref.Job())
			}
		}
	}
	return r.read(missing, now)
}

// read loads records from the store.
func (r *roundRecords) read(refs []store.Ref, now int64) error {
	if len(refs) == 0 {
		return nil
	}
	records, err := look(r.reads, r.reads.shard.Read, refs)
	if err != nil {
		return err
	}
	r.load(refs, records, now)
	return nil
}

// pendingAtOnce is how many records are read at a time when looking for pending runs.
const pendingAtOnce = 512

// bringPending loads the pending runs of a job: an operation that ends or changes runs must also find those
// that an earlier owner handed out.
func (r *roundRecords) bringPending(job carillon.Key, now int64) error {
	for last := uint64(0); ; {
		refs := r.m.Absent(job, last, pendingAtOnce)
		if len(refs) == 0 {
			return nil
		}
		if err := r.read(refs, now); err != nil {
			return err
		}
		last = refs[len(refs)-1].Seq
	}
}

// ended finds a finished run in a batch that is on its way, so that the answer waits for that batch, or in
// the history.
func (r *roundRecords) ended(id store.RunID) (store.RunRecord, bool, error) {
	if run, ok := r.m.Ending(id); ok {
		return run, true, nil
	}
	return r.reads.finished(id)
}

// load brings in what a round has read.
func (r *roundRecords) load(refs []store.Ref, records []store.Record, now int64) {
	r.m.Load(records, now)
	r.touched = append(r.touched, refs...)
}

// settle lets go of all records at the end of a round.
func (r *roundRecords) settle() {
	r.m.Settle(r.touched)
	r.touched = r.touched[:0]
	clear(r.absent)
}

// loadAhead brings in what the lane has read beside the rounds, until the end of the next round. It notes
// which records do not exist. Records that may be old are left out, so that a round reads them again.
func (r *roundRecords) loadAhead(refs []store.Ref, records []store.Record, now int64) {
	if len(r.changed) > 0 {
		kept := make([]store.Record, 0, len(records))
		for i := range records {
			if ref := records[i].Ref; !r.changed[ref] && !r.changed[ref.Job()] {
				kept = append(kept, records[i])
			}
		}
		records = kept
	}
	r.load(refs, records, now)
	for i := range records {
		if !records[i].Exists {
			r.absent[records[i].Ref] = true
		}
	}
}

// readEnded records that the lane's read is over.
func (r *roundRecords) readEnded() {
	r.ahead = false
	clear(r.changed)
}

// sent notes which records a batch changes, if the lane reads.
func (r *roundRecords) sent(b *store.Batch) {
	if !r.ahead {
		return
	}
	for i := range b.Puts {
		r.changed[b.Puts[i].Ref] = true
	}
	for _, ref := range b.Deletes {
		r.changed[ref] = true
	}
}
