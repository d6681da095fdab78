package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// A store that goes back has what it had, and takes writes of new terms only, whose epochs are greater than
// any before.
func TestAStoreGoesBack(t *testing.T) {
	ctx := context.Background()
	s := memory.New(memory.Options{Partitions: 2})
	claim := func(p int) (store.Shard, store.Term) {
		terms, err := s.Leaser().Claim(ctx, "node", []int{p}, time.Hour)
		if err != nil || terms[0].IsZero() {
			t.Fatalf("claim: %v, %v", terms, err)
		}
		shard, err := s.Shard(p, terms[0])
		if err != nil {
			t.Fatal(err)
		}
		return shard, terms[0]
	}
	write := func(shard store.Shard, key string) error {
		return shard.Apply(ctx, &store.Batch{MetaRecords: []store.MetaRecord{{Kind: 'x', Key: key, Value: []byte{1}}}})
	}
	old, _ := claim(0)
	if err := write(old, "kept"); err != nil {
		t.Fatal(err)
	}
	past := s.Past()
	other, last := claim(1)
	for _, shard := range []store.Shard{old, other} {
		if err := write(shard, "lost"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a past may be gone back to again
		s.Revert(past)
		for _, shard := range []store.Shard{old, other} {
			if err := write(shard, "late"); store.OutcomeOf(err) != store.Fenced {
				t.Errorf("a write of a term of before: %v", err)
			}
		}
		got, err := old.MetaRecords(ctx, store.MetaQuery{Kind: 'x', Limit: 10})
		if err != nil || len(got) != 1 || got[0].Key != "kept" {
			t.Errorf("left: %v, %v", got, err)
		}
	}
	shard, term := claim(1)
	if term.Epoch <= last.Epoch || term.Nonce == last.Nonce {
		t.Errorf("claimed under %v after %v", term, last)
	}
	if err := write(shard, "new"); err != nil {
		t.Error(err)
	}
}

// TestGroupsBesideAStoreThatGoesBack are applied or refused, and share nothing unguarded with it.
func TestGroupsBesideAStoreThatGoesBack(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 2})
	past := s.Past()
	var back sync.WaitGroup
	back.Go(func() {
		for range 100 {
			s.Revert(past)
		}
	})
	defer back.Wait()
	for i := range 100 {
		terms, err := s.Leaser().Claim(t.Context(), "node", []int{0, 1}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var group []store.Write
		for p, term := range terms {
			shard, err := s.Shard(p, term)
			if err != nil {
				t.Fatal(err)
			}
			group = append(group, store.Write{Shard: shard, Batch: put(fmt.Sprint(i))})
		}
		if err := s.ApplyGroup(t.Context(), group); err != nil && !errors.Is(err, store.ErrFenced) {
			t.Fatal(err)
		}
	}
}
