package cassandra

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
	"github.com/carillonhq/carillon/server/store/inuse"
	"github.com/carillonhq/carillon/server/store/joined"
)

// replica is what a partition holds, in memory, as it was after one batch of its log. The owner's follows its
// own batches, another node's reads on when it is asked for.
type replica struct {
	s      *Store
	number int
	turn   inuse.Turn              // had while somebody reads on or applies
	is     atomic.Pointer[version] // nil: not known
	hint   atomic.Int64            // a segment that the log had, to go on from; 0: none is known
	newest *joined.Call[newest]

	mine atomic.Pointer[store.Term] // the term of this process, nil if it has not claimed the partition
	read atomic.Bool                // since rest was called last

	notBefore time.Time // when the cleaner may try to clean the log
}

// version is what a partition holds after a batch. It is never changed: a batch changes a copy, which takes
// its place when Cassandra has the batch. So reads see nothing that is not durable, and wait for nothing that
// is on its way.
type version struct {
	holds    *contents.Partition
	segments []segment // from the first that is of use to the last; none: nobody has written yet
	term     store.Term
	last     int64 // the number of its last batch
	id       int64 // of that batch, drawn; 0: not known
	used     int64 // the greatest number of a row, also of a batch that was not finished
	live     size  // of what it holds, about
}

// segment is a part of the log.
type segment struct {
	number int
	size   size
}

// tail is the segment that goes on.
func (v *version) tail() segment { return v.segments[len(v.segments)-1] }

// log is the size of the whole log.
func (v *version) log() (sum size) {
	for _, s := range v.segments {
		sum = sum.plus(s.size)
	}
	return sum
}

// grown returns a version with so much more in its last segment.
func (v *version) grown(by size) *version {
	next := *v
	next.segments = append([]segment(nil), v.segments...)
	t := &next.segments[len(next.segments)-1]
	t.size = t.size.plus(by)
	return &next
}

// newest is what the last known segment said, and what was known before it was asked.
type newest struct {
	tail
	before *version
}

func newReplica(s *Store, number int) *replica {
	r := &replica{s: s, number: number, turn: inuse.NewTurn()}
	r.newest = joined.New(func() (newest, error) {
		n := newest{before: r.is.Load()}
		if n.before == nil || len(n.before.segments) == 0 {
			return n, nil
		}
		var err error
		n.tail, err = r.readTail(context.Background(), s.wire.levels.regular, n.before.tail().number)
		return n, err
	})
	return r
}

// forget makes the next read or write load the partition.
func (r *replica) forget() {
	r.is.Store(nil)
	r.hint.Store(0)
}

// own notes the term under which this process has claimed the partition.
func (r *replica) own(term store.Term) { r.mine.Store(&term) }

// disown notes that this process does not have the partition any more, unless it has claimed it since under
// another term. What it does not have is not kept.
func (r *replica) disown(term store.Term) {
	if mine := r.mine.Load(); mine != nil && *mine == term && r.mine.CompareAndSwap(mine, nil) {
		r.forget()
	}
}

// rest forgets a partition of another process that nobody has read since the last time.
func (r *replica) rest() {
	if !r.read.Swap(false) && r.mine.Load() == nil {
		r.forget()
	}
}

// since returns the version that is known, if it is as new as what Cassandra has answered.
func (r *replica) since(n *newest) *version {
	v := r.is.Load()
	switch {
	case v == nil || n.before == nil || len(n.before.segments) == 0 || len(v.segments) == 0:
		return nil
	case !n.exists || n.last < n.before.last && n.segment == n.before.tail().number:
		// Cassandra has less than it had: it was restored from a backup, or the segment was deleted long ago.
		r.is.CompareAndSwap(n.before, nil)
		r.hint.Store(0)
		return nil
	// Only what was the last segment when it was asked tells that there is nothing newer.
	case n.next == 0 && (v.tail().number > n.segment || v.tail().number == n.segment && v.last >= n.last):
		return v
	}
	return nil
}

// current returns what the partition holds, with every batch that was acknowledged before the call.
func (r *replica) current(ctx context.Context) (*contents.Partition, error) {
	r.read.Store(true)
	n, err := r.newest.Wait(ctx)
	if err != nil {
		return nil, failure(err)
	}
	if v := r.since(&n); v != nil {
		return v.holds, nil
	}
	if err := r.turn.Take(ctx, nil); err != nil {
		return nil, err
	}
	defer r.turn.Give()
	if v := r.since(&n); v != nil { // somebody else has read on, or applied
		return v.holds, nil
	}
	v, err := r.advance(ctx)
	if err != nil {
		return nil, err
	}
	return v.holds, nil
}
