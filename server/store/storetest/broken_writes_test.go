package storetest_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// brokenWrites are stores that apply batches wrongly.
var brokenWrites = []broken{
	{fault: "loses every third put", caughtBy: "batch/what is put is read back", build: losesPuts},
	{fault: "loses a field of the state", caughtBy: "batch/what is put is read back",
		build: fieldOf(func(s *store.State) { s.Pending = 0 })},
	{fault: "loses the grant", caughtBy: "batch/what is put is read back",
		build: fieldOf(func(s *store.State) { s.Run.Grant.Term.Nonce >>= 1 })},
	{fault: "forgets the spec on a state-only put", caughtBy: "batch/a nil spec keeps the stored one",
		build: forgetsSpec},
	{fault: "drops a pending run's own spec", caughtBy: "batch/a pending run may have a spec of its own",
		build: dropsPendingSpec},
	{fault: "resurrects a deleted job", caughtBy: "batch/a delete leaves nothing", build: resurrects},
	{fault: "leaves pending runs of a deleted job", caughtBy: "batch/a job goes with its pending runs",
		build: leavesPending},
	{fault: "deletes by prefix of the name", caughtBy: "batch/a job goes with its pending runs",
		build: deletesByPrefix},
	{fault: "applies part of a batch", caughtBy: "batch/all parts are applied", build: func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) {
			if len(b.Puts) > 0 && b.Expire != nil {
				b.MetaRecords = nil
			}
		})
	}},
	{fault: "applies a batch record by record", caughtBy: "concurrent/a read sees whole batches",
		build: appliesOneByOne},
	{fault: "applies a batch although its context ended, and says it did not",
		caughtBy: "batch/a cancelled context leaves no doubt", build: liesAboutCancel},
	{fault: "keeps what it was given", caughtBy: "batch/what was put is not aliased", build: aliasesInput},
	{fault: "hands out what it keeps", caughtBy: "batch/what is returned is not aliased", build: aliasesOutput},
	{fault: "mixes partitions", caughtBy: "batch/partitions are apart", build: mixesPartitions},
	{fault: "cuts specs at 64 KiB", caughtBy: "batch/large specs", build: func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) {
			b.Puts = slices.Clone(b.Puts)
			for i := range b.Puts {
				b.Puts[i].Spec = b.Puts[i].Spec[:min(len(b.Puts[i].Spec), 1<<16):len(b.Puts[i].Spec)]
			}
		})
	}},
	{fault: "reads in order of the refs",
		caughtBy: "batch/read keeps the order of the refs", build: func(*memory.Store) faults {
			return faults{read: change(func(_ []store.Ref, got []store.Record) []store.Record {
				slices.SortFunc(got, func(a, b store.Record) int { return a.Compare(b.Ref) })
				return got
			})}
		}},
	{fault: "does not delete metadata records", caughtBy: "metadata/a put replaces, a nil value deletes",
		build: func(*memory.Store) faults {
			return onBatch(func(b *store.Batch) {
				b.MetaRecords = slices.DeleteFunc(slices.Clone(b.MetaRecords),
					func(x store.MetaRecord) bool { return x.Value == nil })
			})
		}},
	{fault: "takes an empty value for none", caughtBy: "metadata/a put replaces, a nil value deletes",
		build: func(*memory.Store) faults {
			return onBatch(func(b *store.Batch) {
				b.MetaRecords = slices.Clone(b.MetaRecords)
				for i := range b.MetaRecords {
					if len(b.MetaRecords[i].Value) == 0 {
						b.MetaRecords[i].Value = nil
					}
				}
			})
		}},
}

func losesPuts(*memory.Store) faults {
	n := 0
	return onBatch(func(b *store.Batch) {
		b.Puts = slices.DeleteFunc(slices.Clone(b.Puts), func(store.Record) bool { n++; return n%3 == 0 })
	})
}

// fieldOf loses something of every state.
func fieldOf(lose func(s *store.State)) func(*memory.Store) faults {
	return func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) {
			b.Puts = slices.Clone(b.Puts)
			for i := range b.Puts {
				lose(&b.Puts[i].State)
			}
		})
	}
}

func forgetsSpec(*memory.Store) faults {
	return onBatch(func(b *store.Batch) {
		b.Puts = slices.Clone(b.Puts)
		for i := range b.Puts {
			if b.Puts[i].Spec == nil {
				b.Puts[i].Spec = []byte{}
			}
		}
	})
}

func dropsPendingSpec(*memory.Store) faults {
	return onBatch(func(b *store.Batch) {
		b.Puts = slices.Clone(b.Puts)
		for i := range b.Puts {
			if b.Puts[i].Seq > 0 {
				b.Puts[i].Spec = nil
			}
		}
	})
}

// at reads the store under the fault.
func at(m *memory.Store, partition int) store.Shard {
	s, err := m.Shard(partition, store.Term{})
	if err != nil {
		panic(err)
	}
	return s
}

// all is every due or listed record of a partition.
func all(m *memory.Store, partition int) []store.Record {
	ctx := context.Background()
	out, _ := at(m, partition).List(ctx, store.ListQuery{Limit: plenty})
	for rank := range uint8(4) {
		due, _ := at(m, partition).Due(ctx, store.DueQuery{Priority: rank, Until: 1<<63 - 1, Limit: plenty})
		out = append(out, due...)
	}
	return out
}

const plenty = 1 << 20

// resurrects: a delete, and a late write of what was read before it.
func resurrects(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		was, _ := at(m, partition).Read(context.Background(), b.Deletes)
		if err := next(b); err != nil {
			return err
		}
		was = slices.DeleteFunc(was, func(r store.Record) bool { return !r.Exists })
		return next(&store.Batch{Puts: was})
	}}
}

func leavesPending(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		before := all(m, partition)
		if err := next(b); err != nil {
			return err
		}
		var left []store.Record
		for _, r := range before {
			if r.Seq > 0 && slices.Contains(b.Deletes, r.Job()) {
				left = append(left, r)
			}
		}
		return next(&store.Batch{Puts: left})
	}}
}

func deletesByPrefix(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		more := *b
		for _, r := range all(m, partition) {
			for _, ref := range b.Deletes {
				if ref.Seq == 0 && r.Namespace == ref.Namespace && strings.HasPrefix(r.Name, ref.Name) {
					more.Deletes = append(slices.Clone(more.Deletes), r.Ref)
				}
			}
		}
		return next(&more)
	}}
}

// appliesOneByOne lets somebody read between one record and the next, if there is anybody.
func appliesOneByOne(*memory.Store) faults {
	var reads atomic.Int64
	return faults{
		read: func(q []store.Ref, next func([]store.Ref) ([]store.Record, error)) ([]store.Record, error) {
			defer reads.Add(1)
			return next(q)
		},
		apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
			for _, r := range b.Puts {
				if err := next(&store.Batch{Puts: []store.Record{r}}); err != nil {
					return err
				}
				was := reads.Load()
				for spin := 0; reads.Load() < was+2 && spin < 1000; spin++ {
					runtime.Gosched()
				}
			}
			return nil
		},
	}
}

func liesAboutCancel(m *memory.Store) faults {
	return faults{apply: func(partition int, term store.Term, b *store.Batch, next func(*store.Batch) error) error {
		err := next(b)
		if store.OutcomeOf(err) == store.NotApplied {
			if s, shardErr := m.Shard(partition, term); shardErr == nil {
				_ = s.Apply(context.Background(), b)
			}
		}
		return err
	}}
}

// aliasesInput answers reads out of what the caller gave it.
func aliasesInput(*memory.Store) faults {
	given := map[store.Ref][]byte{}
	return faults{
		apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
			for _, r := range b.Puts {
				given[r.Ref] = r.Spec
			}
			return next(b)
		},
		read: change(func(_ []store.Ref, got []store.Record) []store.Record {
			for i := range got {
				if spec := given[got[i].Ref]; spec != nil {
					got[i].Spec = spec
				}
			}
			return got
		}),
	}
}

// aliasesOutput hands out one slice again and again.
func aliasesOutput(*memory.Store) faults {
	kept := map[store.Ref][]byte{}
	return faults{due: change(func(_ store.DueQuery, got []store.Record) []store.Record {
		for i := range got {
			if spec := kept[got[i].Ref]; spec != nil {
				got[i].Spec = spec
			}
			kept[got[i].Ref] = got[i].Spec
		}
		return got
	})}
}

func mixesPartitions(m *memory.Store) faults {
	return faults{metaRecords: func(q store.MetaQuery,
		_ func(store.MetaQuery) ([]store.MetaRecord, error)) ([]store.MetaRecord, error) {
		return at(m, 0).MetaRecords(context.Background(), q)
	}}
}

// staleRecords remembers every version of every record, for stores that leave index entries behind.
func staleRecords(old *[]store.Record) func(int, store.Term, *store.Batch, func(*store.Batch) error) error {
	return func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		*old = append(*old, b.Puts...)
		return next(b)
	}
}

// liveIndex is a live index that is kept in the order of the puts: a run that moves is lost when its old
// record comes last.
func liveIndex(*memory.Store) faults {
	index, last := map[store.RunID]store.Ref{}, map[store.Ref]store.RunID{}
	return faults{
		apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
			for _, ref := range b.Deletes {
				delete(index, last[ref])
			}
			for _, r := range b.Puts {
				delete(index, last[r.Ref])
				if r.State.Run.Live {
					last[r.Ref] = r.State.Identity(partition)
					index[last[r.Ref]] = r.Ref
				}
			}
			return next(b)
		},
		live: func(id store.RunID, _ func(store.RunID) (*store.Ref, error)) (*store.Ref, error) {
			if ref, ok := index[id]; ok {
				return &ref, nil
			}
			return nil, nil
		},
	}
}
