package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store/codec"
)

// Whoever goes through a store once, to move it or to fill it, has no use for all of it in memory. So the
// keeper takes away what partitions hold that have not been read for longest:
//
//	in memory ── a snapshot, unless all batches behind the last one are at hand ──> not in memory: a snapshot
//	    ▲                                                                            and batches behind it
//	    └─────────────────────── it is read ────────────────────────────────────────────┘
//
// A partition that is not in memory is written without being read: its batches are in the log, as always, and
// at hand, so that who reads it needs no logs, which have batches of all partitions.

const (
	// sparing is how often the keeper looks at what is in memory.
	sparing = 100 * time.Millisecond
	// mostLate is how many bytes of batches are at hand of a partition that is in memory, too.
	mostLate = 1 << 20
	// beingRead is how long what was read is kept, if more is to be read of it: who goes through a store reads
	// partitions page by page. That is so for the partitions that were read last, up to atOnce: more are not
	// read at the same time.
	beingRead = time.Second
	// readLast are kept however long ago they were read: what is done with a page may take its time.
	readLast = 4
	// never is when something was read that was not.
	never = math.MinInt64
)

// Spare implements [store.Sparer].
func (s *Store) Spare(records int) {
	s.spared.Store(int64(records))
	select {
	case s.keeper.sooner <- struct{}{}:
	default:
	}
}

// latest returns the batches of a version that are at hand, with one more. The caller holds the lock.
func (r *replica) latest(of *version, batch []byte) [][]byte {
	light := r.s.spared.Load() > 0 && of.light() && of.since+int64(len(batch)) <= mostLate
	if of.holds == nil || light || r.saving.Load() {
		return append(of.late, batch)
	}
	return nil
}

// light reports whether all batches behind the snapshot are at hand.
func (v *version) light() bool { return len(v.late) == v.segments }

// whole returns a version with what the partition holds, which is read again if it is not in memory.
func (r *replica) whole(ctx context.Context, v *version) (*version, error) {
	if v.holds != nil {
		return v, nil
	}
	next := *v
	var err error
	if next.holds, err = r.load(ctx, v.snapshot); err != nil {
		return nil, fmt.Errorf("store: bucket: read partition %d: %w", r.number, err)
	}
	for _, data := range v.late {
		b, err := codec.DecodeBatch(data)
		if err != nil {
			return nil, fmt.Errorf("store: bucket: partition %d: %w", r.number, err)
		}
		next.holds.Change(b, nil)
	}
	return &next, nil
}

// toSave returns the version of which a snapshot is to be written. If there is to be less in memory, all
// batches behind it are at hand from now on, until the keeper is done with it: otherwise a partition that is
// written all the time would never leave memory.
func (r *replica) toSave(ctx context.Context) (*version, error) {
	if r.s.spared.Load() == 0 {
		return r.is.Load(), nil
	}
	// No batch is on its way, which would not be at hand.
	if err := r.turn.Take(ctx, r.s.closing); err != nil {
		return nil, err
	}
	defer r.turn.Give()
	r.saving.Store(true)
	return r.is.Load(), nil
}

// lost forgets a version that is not in memory, and whose snapshot is not there any more: the root has named
// another one since, in an answer that was lost. So who reads or writes it next reads it by the root.
func (r *replica) lost(ctx context.Context, v *version) error {
	if err := r.turn.Take(ctx, r.s.closing); err != nil { // what is on its way is to be known by the journal
		return err
	}
	defer r.turn.Give()
	if is := r.is.Load(); is != nil && is.holds == nil && is.snapshot == v.snapshot {
		r.is.Store(nil)
	}
	return nil
}

// saveVersion writes a snapshot of a version.
func (r *replica) saveVersion(ctx context.Context, v *version) (snapshot, error) {
	all, err := r.whole(ctx, v)
	switch {
	case errors.Is(err, errGone):
		return snapshot{}, errors.Join(err, r.lost(ctx, v))
	case err != nil:
		return snapshot{}, err
	}
	return r.save(ctx, all.holds)
}

// spare has less in memory, if there is too much.
func (k *keeper) spare(ctx context.Context) error {
	if err := k.s.lighten(ctx); err != nil {
		return err
	}
	var heavy []*replica
	for _, r := range k.s.unused() {
		if h, v := r.hold.Load(), r.is.Load(); h != nil && h.fresh.Load() && v != nil && !v.light() {
			heavy = append(heavy, r)
		}
	}
	for some := range slices.Chunk(heavy, mostSaved) {
		if err := k.save(ctx, some, (*replica).left); err != nil {
			return err
		}
	}
	return nil
}

// lighten takes away what partitions hold that have not been read for longest, where that takes no snapshot,
// as long as there is too much in memory.
func (s *Store) lighten(ctx context.Context) error {
	for _, r := range s.unused() {
		if err := r.leave(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unused are the partitions that are to go if there is too much in memory, and that are not being read.
func (s *Store) unused() []*replica {
	most := int(s.spared.Load())
	if most == 0 {
		return nil
	}
	var all []*replica
	total := 0
	for _, r := range s.replicas {
		if n := r.inMemory(); n > 0 {
			all, total = append(all, r), total+n
		}
	}
	was := map[*replica]int64{} // they are read meanwhile
	for _, r := range all {
		was[r] = r.used.Load()
	}
	slices.SortFunc(all, func(a, b *replica) int { return cmp.Compare(was[a], was[b]) })
	now := s.elapsed()
	for i, r := range all {
		left := len(all) - i
		reads := was[r] != never && (left <= readLast || left <= atOnce && now-was[r] < int64(beingRead))
		if total <= most || reads {
			return all[:i]
		}
		total -= r.inMemory()
	}
	return all
}

// inMemory is how many jobs and runs of the partition are in memory.
func (r *replica) inMemory() int {
	if v := r.is.Load(); v != nil && v.holds != nil {
		return v.holds.Len()
	}
	return 0
}

// leave has nothing of the partition in memory, if that can be.
func (r *replica) leave(ctx context.Context) error {
	if err := r.turn.Take(ctx, r.s.closing); err != nil {
		return err
	}
	defer r.turn.Give()
	r.left()
	return nil
}

// left has nothing of the partition in memory, if that can be. The caller holds the lock.
func (r *replica) left() {
	v, h := r.is.Load(), r.hold.Load()
	switch {
	case v == nil || v.holds == nil:
	case h == nil || !h.fresh.Load(): // it is read from the root on before it is written
		r.is.CompareAndSwap(v, nil)
	case v.light():
		next := *v
		next.holds = nil
		r.is.CompareAndSwap(v, &next)
	}
}
