package storetest_test

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// brokenGroups are stores that apply groups wrongly.
var brokenGroups = []broken{
	{fault: "applies part of a group", caughtBy: "group/all batches are applied",
		build: grouping(func(writes []store.Write, next func([]store.Write) error) error {
			return next(writes[:max(len(writes)-1, 0)])
		})},
	{fault: "gives every shard the first one's batch", caughtBy: "group/behaves like the model",
		build: grouping(func(writes []store.Write, next func([]store.Write) error) error {
			mixed := slices.Clone(writes)
			for i := range mixed {
				mixed[i].Batch = writes[0].Batch
			}
			return next(mixed)
		})},
	{fault: "applies the writes of the owners and refuses the others",
		caughtBy: "group/one wrong term refuses all", build: grouping(oneByOne)},
	{fault: "stops at the first write that it refuses", caughtBy: "group/one wrong term refuses all",
		build: grouping(func(writes []store.Write, next func([]store.Write) error) error {
			for i := range writes {
				if err := next(writes[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		})},
	{fault: "ignores a stale term", caughtBy: "group/one wrong term refuses all", build: ignoresStale},
	{fault: "ignores a stale term, under load",
		caughtBy: "group/nothing lands after one of its partitions was claimed", build: ignoresStale},
	{fault: "applies the rest under load",
		caughtBy: "group/nothing lands after one of its partitions was claimed", build: grouping(oneByOne)},
	{fault: "wants at least two", caughtBy: "group/of no batch, of one, of empty ones",
		build: grouping(func(writes []store.Write, next func([]store.Write) error) error {
			if len(writes) == 1 {
				return nil
			}
			return next(writes)
		})},
	{fault: "applies a group although its context ended, and says it did not",
		caughtBy: "group/a cancelled context leaves no doubt",
		build: grouping(func(writes []store.Write, next func([]store.Write) error) error {
			err := next(writes)
			if store.OutcomeOf(err) == store.NotApplied {
				applyEach(writes)
			}
			return err
		})},
	{fault: "loses every fourth group", caughtBy: "group/beside other groups and single batches",
		build: losesGroups},
	{fault: "forgets everything", caughtBy: "group/survives a reopen", reopen: asNew},
	{fault: "forgets everything in a crash", caughtBy: "group/survives a crash", reopen: asNew},
}

// grouping makes faults of groups.
func grouping(f func(writes []store.Write, next func([]store.Write) error) error) func(*memory.Store) faults {
	return func(*memory.Store) faults { return faults{group: f} }
}

// oneByOne applies what it can and returns the last error.
func oneByOne(writes []store.Write, next func([]store.Write) error) (err error) {
	for i := range writes {
		if one := next(writes[i : i+1]); one != nil {
			err = one
		}
	}
	return err
}

func applyEach(writes []store.Write) {
	for _, w := range writes {
		_ = w.Shard.Apply(context.Background(), w.Batch)
	}
}

// ignoresStale applies under the terms in force whatever was refused, and still says that it was.
func ignoresStale(m *memory.Store) faults {
	return faults{group: func(writes []store.Write, next func([]store.Write) error) error {
		err := next(writes)
		if store.OutcomeOf(err) == store.Fenced {
			for _, w := range writes {
				partition := w.Shard.(*faultyShard).partition
				_ = applyAs(m, partition, ownerOf(m, partition).Term, w.Batch)
			}
		}
		return err
	}}
}

func losesGroups(*memory.Store) faults {
	var n atomic.Int64
	return faults{group: func(writes []store.Write, next func([]store.Write) error) error {
		if len(writes) > 1 && n.Add(1)%4 == 0 {
			return nil
		}
		return next(writes)
	}}
}
