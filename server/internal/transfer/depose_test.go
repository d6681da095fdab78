package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// halfMarked is a store of which only the first partition has the mark, as a call leaves it that was killed.
func halfMarked(t *testing.T) *memory.Store {
	t.Helper()
	s := memory.New(memory.Options{Partitions: partitions})
	play(t, s, 1, func(p int, sh store.Shard) {
		if p > 0 {
			return
		}
		m := store.MetaRecord{Kind: store.KindMove, Key: store.MoveKey, Value: []byte(store.MoveMoved)}
		if err := sh.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{m}}); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

// marked are the partitions that have the mark.
func marked(t *testing.T, s store.Store) (all string) {
	t.Helper()
	for p := range partitions {
		sh := must[store.Shard](t)(s.Shard(p, store.Term{}))
		if len(must[[]store.MetaRecord](t)(sh.MetaRecords(t.Context(), store.MoveMarks))) > 0 {
			all += fmt.Sprint(p)
		}
	}
	return all
}

// TestDeposeMarksTheRest: what has a mark in its first partition only is not deposed yet.
func TestDeposeMarksTheRest(t *testing.T) {
	s := halfMarked(t)
	is := transfer.Head{MACKey: s.Meta().MACKey}
	node := store.Member{ID: "n1", Nonce: 1}
	if err := s.Leaser().Join(t.Context(), node, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := transfer.Depose(t.Context(), s, is); !strings.Contains(fmt.Sprint(err), "nodes live on the store") {
		t.Errorf("deposed while a node lives: %v", err)
	}
	if err := s.Leaser().Leave(t.Context(), "n1", 1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when all of it is marked
		if err := transfer.Depose(t.Context(), s, is); err != nil {
			t.Fatal(err)
		}
		if got := marked(t, s); got != "01234" {
			t.Errorf("the partitions %q are marked, want all", got)
		}
	}
}

// TestDeposeThatFailsLeavesMarks: only partitions that could be served before can be served after it.
func TestDeposeThatFailsLeavesMarks(t *testing.T) {
	s := halfMarked(t)
	err := transfer.Depose(t.Context(), fails{s, 3}, transfer.Head{MACKey: s.Meta().MACKey})
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("with a partition that is not written: %v", err)
	}
	if got := marked(t, s); got != "0" {
		t.Errorf("the partitions %q are marked, want 0", got)
	}
}

// fails is a store in whose partition nothing can be written.
type fails struct {
	store.Store
	partition int
}

// Shard implements [store.Store].
func (f fails) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := f.Store.Shard(p, term)
	if p == f.partition {
		s = unwritable{s}
	}
	return s, err
}

type unwritable struct{ store.Shard }

// Apply implements [store.Shard].
func (unwritable) Apply(context.Context, *store.Batch) error { return store.ErrFenced }
