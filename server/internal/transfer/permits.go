package transfer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// permits are numbers of permits, by limit and partition.
type permits map[delivery.Limit]map[int]int

func (n permits) add(l delivery.Limit, p, permits int) {
	if n[l] == nil {
		n[l] = map[int]int{}
	}
	n[l][p] += permits
}

// finish makes a store that is whole one that nodes may serve.
func (f *frozen) finish(ctx context.Context) error {
	if err := f.allocate(ctx); err != nil {
		return fmt.Errorf("permits: %w", cause(ctx, err))
	}
	return f.mark(ctx, "")
}

// allocate has the homes of limits allocate to each partition at least the permits that its attempts in force
// hold. A node that has its store for itself writes no allocations, and a home without them would hand out
// what is held, until the partition that holds it has asked.
func (f *frozen) allocate(ctx context.Context) error {
	held, allocated := permits{}, permits{}
	var mu sync.Mutex
	read := func(kind byte, note func(p int, r *store.MetaRecord)) error {
		return f.Kinds(ctx, string([]byte{kind}), func(_ context.Context, p int, b *store.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.MetaRecords {
				note(p, &b.MetaRecords[i])
			}
			return nil
		})
	}
	// What cannot be read of them is for carillon doctor.
	err := read(store.KindLimited, func(p int, r *store.MetaRecord) {
		if h, ok := permitrecord.ParseHeld(r); ok {
			held.add(h.Limit, p, 1)
		}
	})
	if err != nil || len(held) == 0 {
		return err
	}
	if err := read(store.KindAllocation, func(_ int, r *store.MetaRecord) {
		if a, ok := permitrecord.ParseAllocation(r); ok {
			allocated.add(a.Limit, a.Partition, a.N)
		}
	}); err != nil {
		return err
	}
	for l, of := range held {
		var lack []store.MetaRecord
		for p, n := range of {
			if allocated[l][p] < n {
				// The first request of the next owner replaces what is of an earlier term.
				a := permitrecord.Allocation{Limit: l, Partition: p, N: n, Term: store.Term{Epoch: 1}}
				lack = append(lack, a.Record())
			}
		}
		home := f.shards[permitrecord.HomeOf(l, len(f.shards))]
		for some := range slices.Chunk(lack, pageItems) {
			if err := again(ctx, home, &store.Batch{MetaRecords: some}); err != nil {
				return err
			}
		}
	}
	return nil
}
