package storetest_test

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// brokenDurability are stores that lose something when they are opened again.
var brokenDurability = []broken{
	{fault: "acknowledges before it is durable, and is closed",
		caughtBy: "durable/what was just acknowledged survives a reopen", build: acksEarly, reopen: losesBuffer},
	{fault: "acknowledges before it is durable, and crashes",
		caughtBy: "durable/what was just acknowledged survives a crash", build: acksEarly, reopen: losesBuffer},
	{fault: "forgets everything", caughtBy: "durable/everything is there after a reopen", reopen: asNew},
	{fault: "forgets its epochs", caughtBy: "durable/epochs grow over a crash", reopen: asNew},
	{fault: "makes a new MAC key", caughtBy: "durable/meta stays after a reopen", reopen: asNew},
	{fault: "changes the number of partitions", caughtBy: "durable/meta stays after a reopen",
		reopen: func(s store.Store) store.Store {
			return &faultyStore{Store: s, faults: faults{meta: func(m store.Meta) store.Meta {
				m.Partitions++
				return m
			}}}
		}},
	{fault: "has no MAC key", caughtBy: "durable/meta says how the store was created", build: asking(faults{
		meta: func(m store.Meta) store.Meta { m.MACKey = make([]byte, 32); return m }})},
	{fault: "hands out its MAC key", caughtBy: "durable/meta says how the store was created",
		build: handsOutKey},
	{fault: "loses until when leases lasted",
		caughtBy: "durable/how long a lease would last is known after a crash", reopen: forgetsLeases},
	{fault: "loses its history", caughtBy: "durable/everything is there after a crash", reopen: func(s store.Store) store.Store {
		return &faultyStore{Store: s, faults: faults{runs: change(func(store.RunQuery,
			[]store.RunRecord) []store.RunRecord {
			return nil
		})}}
	}},
	{fault: "loses what was staged", caughtBy: "durable/everything is there after a crash",
		reopen: func(s store.Store) store.Store {
			return &faultyStore{Store: s,
				faults: faults{staged: change(func(store.StagedQuery, []store.Record) []store.Record { return nil })}}
		}},
}

// asNew opens an empty store.
func asNew(store.Store) store.Store { return memory.New(memory.Options{Partitions: 16}) }

// acksEarly keeps the last batch in a buffer until somebody reads or writes. The faults' crash empties the
// buffer.
func acksEarly(*memory.Store) faults {
	var buffer func()
	flush := func() {
		if buffer != nil {
			buffer()
		}
		buffer = nil
	}
	return faults{
		crash:  func() { buffer = nil },
		leaser: func(l store.Leaser) store.Leaser { flush(); return l },
		read: func(q []store.Ref, next func([]store.Ref) ([]store.Record, error)) ([]store.Record, error) {
			flush()
			return next(q)
		},
		apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
			flush()
			late := *b
			late.Puts = slices.Clone(b.Puts)
			buffer = func() { _ = next(&late) }
			return nil
		},
	}
}

// forgetsLeases opens a store that knows the terms it has given and nothing else of them.
func forgetsLeases(s store.Store) store.Store {
	return &faultyStore{Store: s, faults: faults{leaser: func(l store.Leaser) store.Leaser {
		return &faultyLeaser{l, leases{owners: func(got []store.Owner) []store.Owner {
			for i := range got {
				got[i].Node, got[i].Until = "", time.Time{}
			}
			return got
		}}}
	}}}
}

func losesBuffer(s store.Store) store.Store {
	s.(*faultyStore).faults.crash()
	return s
}

func handsOutKey(m *memory.Store) faults {
	meta := m.Meta()
	return faults{meta: func(store.Meta) store.Meta { return meta }}
}
