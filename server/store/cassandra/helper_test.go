package cassandra_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

const lease = time.Hour

// job is a record that stands in an index.
func job(name string) store.Record {
	return store.Record{
		Ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: name}}, Spec: []byte{},
		State: store.State{Generation: 1, Priority: 2, Due: 1_790_000_000_000_000_000},
	}
}

func batch(names ...string) *store.Batch {
	var b store.Batch
	for _, name := range names {
		b.Puts = append(b.Puts, job(name))
	}
	return &b
}

// own claims a partition.
func own(t testing.TB, s store.Store, partition int) (store.Shard, store.Holding) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{partition}, lease)
	if err != nil {
		t.Fatal(err)
	}
	return shardOf(t, s, partition, terms[0]), store.Holding{Partition: partition, Term: terms[0]}
}

func shardOf(t testing.TB, s store.Store, partition int, term store.Term) store.Shard {
	t.Helper()
	sh, err := s.Shard(partition, term)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// want checks how a batch ends.
func want(t *testing.T, what string, sh store.Shard, b *store.Batch, outcome store.Outcome) {
	t.Helper()
	if err := sh.Apply(t.Context(), b); store.OutcomeOf(err) != outcome {
		t.Fatalf("%s: %v, want outcome %d", what, err, outcome)
	}
}

// names are the jobs of a partition, by name.
func names(t *testing.T, sh store.Shard) (out []string) {
	t.Helper()
	until(t, func() error {
		list, err := sh.List(t.Context(), store.ListQuery{Limit: 100_000})
		out = nil
		for _, r := range list {
			out = append(out, r.Name)
		}
		return err
	})
	return out
}

func wantNames(t *testing.T, sh store.Shard, want ...string) {
	t.Helper()
	if got := names(t, sh); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

// until calls f until it is no error any more.
func until(t *testing.T, f func() error) {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := f(); err != nil; err = f() {
		if patience.Err() != nil {
			t.Fatal(err)
		}
	}
}

// reown claims until Cassandra answers again.
func reown(t *testing.T, s store.Store, partition int) store.Shard {
	t.Helper()
	var terms []store.Term
	until(t, func() (err error) {
		terms, err = s.Leaser().Claim(t.Context(), "node", []int{partition}, lease)
		return err
	})
	return shardOf(t, s, partition, terms[0])
}

// applied claims a partition and applies a batch, as an owner does that is not told what became of one: until
// it is known.
func applied(t *testing.T, s store.Store, partition int, b *store.Batch) (sh store.Shard) {
	t.Helper()
	until(t, func() error {
		sh = reown(t, s, partition)
		return sh.Apply(t.Context(), b)
	})
	return sh
}
