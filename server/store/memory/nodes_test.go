package memory_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// claim claims a partition for ten seconds.
func claim(t *testing.T, s *memory.Store, node string, partition int) (*store.Term, store.Shard) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), node, []int{partition}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if terms[0].IsZero() {
		return nil, nil
	}
	sh, err := s.Shard(partition, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	return &terms[0], sh
}

func put(name string) *store.Batch {
	return &store.Batch{Puts: []store.Record{{Ref: store.Ref{Key: carillon.Key{Namespace: "default",
		Name: name}}, Spec: []byte{}}}}
}

// TestNodes has several nodes share one store in a bubble: leases end at their very instant, and an owner
// that was deposed writes nothing more, alone or in a group.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		l := s.Leaser()
		term, old := claim(t, s, "a", 1)
		_, other := claim(t, s, "a", 2)
		time.Sleep(5 * time.Second)
		if lost, err := l.Renew(t.Context(), "a", []store.Holding{{Partition: 1, Term: *term}},
			10*time.Second); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		time.Sleep(10*time.Second - 1)
		if term, _ := claim(t, s, "b", 1); term != nil {
			t.Fatal("claimed a nanosecond before the lease ended")
		}
		if err := old.Apply(t.Context(), put("before")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Nanosecond)
		if err := old.Apply(t.Context(), put("ended")); err != nil {
			t.Fatalf("a lease has ended, but nobody else has claimed: %v", err)
		}
		next, now := claim(t, s, "b", 1)
		if next == nil || next.Epoch <= term.Epoch || next.Nonce == term.Nonce {
			t.Fatalf("claimed when the lease has ended: %+v after %+v", next, term)
		}
		if err := old.Apply(t.Context(), put("after")); !errors.Is(err, store.ErrFenced) {
			t.Errorf("the old owner writes: %v", err)
		}
		group := []store.Write{{Shard: other, Batch: put("together")}, {Shard: old, Batch: put("together")}}
		if err := s.ApplyGroup(t.Context(), group); !errors.Is(err, store.ErrFenced) {
			t.Errorf("the old owner writes in a group: %v", err)
		}
		if lost, err := l.Renew(t.Context(), "a", []store.Holding{{Partition: 1, Term: *term}},
			time.Hour); err != nil || len(lost) != 1 {
			t.Errorf("the old owner renews: %v, %v", lost, err)
		}
		if err := l.Release(t.Context(), "a", []store.Holding{{Partition: 1, Term: *term}}); err != nil {
			t.Fatal(err)
		}
		if err := now.Apply(t.Context(), put("mine")); err != nil {
			t.Errorf("the new owner, after the old one released: %v", err)
		}
		for sh, want := range map[store.Shard][]string{now: {"before", "ended", "mine"}, other: nil} {
			if got := names(t, sh); !slices.Equal(got, want) {
				t.Errorf("jobs %q, want %q", got, want)
			}
		}
	})
}

func names(t *testing.T, sh store.Shard) (out []string) {
	t.Helper()
	list, err := sh.List(t.Context(), store.ListQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

// TestMemberEnds has a member live until its very instant; another process may have its id from then on.
func TestMemberEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New(memory.Options{Partitions: 1}).Leaser()
		join := func(nonce uint64) error {
			return l.Join(t.Context(), store.Member{ID: "a", Nonce: nonce}, 10*time.Second)
		}
		alive := func() int {
			m, err := l.Members(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(m)
		}
		if err := join(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - 1)
		if err := join(2); !errors.Is(err, store.ErrTaken) || alive() != 1 {
			t.Errorf("%v; %d live a nanosecond before the end", err, alive())
		}
		time.Sleep(time.Nanosecond)
		if n := alive(); n != 0 {
			t.Errorf("%d live at the end", n)
		}
		if err := join(2); err != nil {
			t.Error(err)
		}
		if err := join(1); !errors.Is(err, store.ErrTaken) {
			t.Errorf("the first one joins again: %v", err)
		}
	})
}

// TestGroupOfAnotherStore refuses shards that the store did not make.
func TestGroupOfAnotherStore(t *testing.T) {
	a, b := memory.New(memory.Options{Partitions: 2}), memory.New(memory.Options{Partitions: 2})
	_, sh := claim(t, a, "a", 1)
	if err := b.ApplyGroup(t.Context(), []store.Write{{Shard: sh,
		Batch: put("x")}}); store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a group of another store's shard: %v", err)
	}
	if got := names(t, sh); len(got) > 0 {
		t.Errorf("jobs %q", got)
	}
}
