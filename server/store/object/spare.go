package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store/codec"
)

// Whoever goes through a store once, to move it or to fill it, has no use for all of it in memory. So the
// keeper takes away what partitions hold that have not been used for longest:
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
)

// Spare implements [store.Sparer].
func (s *Store) Spare(records int) {
	s.spared.Store(int64(records))
	select {
	case s.keeper.sooner <- struct{}{}:
	default:
	}
}

// latest returns the batches behind the snapshot of a version that are at hand, with one more.
func (s *Store) latest(of *version, batch []byte) [][]byte {
	light := s.spared.Load() > 0 && of.light() && of.since+int64(len(batch)) <= mostLate
	if of.holds == nil || light {
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

// saveVersion writes a snapshot of a version.
func (r *replica) saveVersion(ctx context.Context, v *version) (snapshot, error) {
	v, err := r.whole(ctx, v)
	if err != nil {
		return snapshot{}, err
	}
	return r.save(ctx, v.holds)
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
		if err := k.save(ctx, some); err != nil {
			return err
		}
		if err := k.s.lighten(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lighten takes away what partitions hold that have not been used for longest, where that takes no snapshot,
// as long as there is too much in memory.
func (s *Store) lighten(ctx context.Context) error {
	for _, r := range s.unused() {
		if err := r.leave(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unused are the partitions that are to go if there is too much in memory.
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
	slices.SortFunc(all, func(a, b *replica) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for i, r := range all {
		if total <= most {
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
	return nil
}
