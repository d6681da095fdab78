package doctor_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/store"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// forgetful is a store whose indexes lack some records, until those are written again, and have a stray one.
type forgetful struct {
	store.Store
	mu    sync.Mutex
	index string // which one
	lacks func(r *store.Record) bool
	runs  bool // it lacks dead runs by their status
	stray *store.Record
	wrote map[store.Ref]bool
	ended map[store.RunID]bool // written again
}

func (f *forgetful) Shard(partition int, term store.Term) (store.Shard, error) {
	sh, err := f.Store.Shard(partition, term)
	return &forgetfulShard{sh, f, partition}, err
}

type forgetfulShard struct {
	store.Shard
	f         *forgetful
	partition int
}

// listed is what an index lists.
func (s *forgetfulShard) listed(index string, page []store.Record, more bool) []store.Record {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.index != index {
		return page
	}
	page = slices.DeleteFunc(page, func(r store.Record) bool { return s.f.lacks(&r) && !s.f.wrote[r.Ref] })
	if r := s.f.stray; r != nil && more && store.PartitionOf(r.Key, s.f.Meta().Partitions) == s.partition {
		page = append(page, *r)
	}
	return page
}

func (s *forgetfulShard) Apply(ctx context.Context, b *store.Batch) error {
	s.f.mu.Lock()
	for i := range b.Puts {
		s.f.wrote[b.Puts[i].Ref] = true
	}
	for i := range b.Runs {
		s.f.ended[b.Runs[i].ID] = true
	}
	s.f.mu.Unlock()
	return s.Shard.Apply(ctx, b)
}

func (s *forgetfulShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	page, err := s.Shard.Due(ctx, q)
	return s.listed("due", page, q.Priority == 2 && q.After == (store.Cursor{})), err
}

func (s *forgetfulShard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	page, err := s.Shard.Staged(ctx, q)
	return s.listed("staged", page, false), err
}

func (s *forgetfulShard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	page, err := s.Shard.List(ctx, q)
	if !q.ByPhase() {
		return page, err
	}
	return s.listed("phase", page, false), err
}

func (s *forgetfulShard) Live(ctx context.Context, id store.RunID) (store.Ref, bool, error) {
	ref, ok, err := s.Shard.Live(ctx, id)
	if left := s.listed("live", []store.Record{{Ref: ref}}, false); len(left) == 0 {
		return store.Ref{}, false, err
	}
	return ref, ok, err
}

func (s *forgetfulShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	page, err := s.Shard.Runs(ctx, q)
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.runs && q.Status != nil && *q.Status == carillon.RunDead {
		page = slices.DeleteFunc(page, func(r store.RunRecord) bool { return !s.f.ended[r.ID] })
	}
	return page, err
}

// TestIndexes: what an index of an engine lacks, or has too much, is found by queries alone; a record that is
// written again is in the indexes.
func TestIndexes(t *testing.T) {
	named := func(name string) func(r *store.Record) bool {
		return func(r *store.Record) bool { return r.Name == name && r.Seq == 0 }
	}
	stray := made("stray", nil)
	stray.State.Priority = 2
	for _, d := range []struct {
		kind   doctor.Kind
		store  *forgetful
		mended bool
	}{
		{store.FaultDueMissing, &forgetful{index: "due", lacks: named("once")}, true},
		{store.FaultDueDangling, &forgetful{index: "due", lacks: named(""), stray: &stray}, false},
		{store.FaultStagedMissing, &forgetful{index: "staged", lacks: named("due")}, true},
		{store.FaultPhaseMissing, &forgetful{index: "phase", lacks: named("paused")}, true},
		{store.FaultLiveMissing, &forgetful{index: "live", lacks: named("mortal")}, true},
		{store.FaultStatusMissing, &forgetful{runs: true}, true},
	} {
		t.Run(string(d.kind), func(t *testing.T) {
			d.store.Store, d.store.wrote, d.store.ended = copied(t), map[store.Ref]bool{}, map[store.RunID]bool{}
			found := kinds(t, d.store, doctor.Look)
			n := found[d.kind].Found
			if n == 0 || len(found) != 1 {
				t.Fatalf("found: %v", found)
			}
			left := map[doctor.Kind]doctor.Tally{}
			if !d.mended {
				left[d.kind] = doctor.Tally{Found: n}
			} else if got := kinds(t, d.store, doctor.Mend); !maps.Equal(got, map[doctor.Kind]doctor.Tally{d.kind: {Found: n, Mended: n}}) {
				t.Errorf("mended: %v", got)
			}
			if got := kinds(t, d.store, doctor.Mend); !maps.Equal(got, left) {
				t.Errorf("afterwards: %v", got)
			}
		})
	}
}

// TestIndexesInOrder: nothing is wrong with what an engine keeps in memory.
func TestIndexesInOrder(t *testing.T) {
	if got := kinds(t, copied(t), doctor.Look); len(got) > 0 {
		t.Error(got)
	}
}

// copied returns a store in memory with what the golden one holds.
func copied(t *testing.T) store.Store {
	t.Helper()
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	from := opened(t, url)
	defer closed(t, from)
	owners, err := from.Leaser().Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{Partitions: from.Meta().Partitions, Epoch: owners[0].Term.Epoch}
	to, err := store.Open(t.Context(), "memory:", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, to) })
	if _, is := to.(store.Examiner); is {
		t.Fatal("it examines itself")
	}
	damage(t, to, func(p *patient) {
		for n := range p.shards {
			b := contents(t, from, n)
			p.apply(n, &b)
		}
	})
	return to
}

// contents is everything that a partition holds.
func contents(t *testing.T, s store.Store, partition int) (b store.Batch) {
	t.Helper()
	shard, err := s.Shard(partition, store.Term{})
	if err != nil {
		t.Fatal(err)
	}
	if b.Puts, err = shard.List(t.Context(), store.ListQuery{Limit: 1000, Pending: true}); err != nil {
		t.Fatal(err)
	}
	if b.Runs, err = shard.Runs(t.Context(), store.RunQuery{All: true, Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	for kind := byte('a'); kind <= 'z'; kind++ {
		found, err := shard.MetaRecords(t.Context(), store.MetaQuery{Kind: kind, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		b.MetaRecords = append(b.MetaRecords, found...)
	}
	return b
}
