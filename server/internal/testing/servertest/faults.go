package servertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Lease is how long [Own] and [Reown] claim for.
const Lease = time.Hour

// Job is a record that stands in an index.
func Job(name string) store.Record {
	return store.Record{
		Ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: name}}, Spec: []byte{},
		State: store.State{Generation: 1, Priority: 2, Due: 1_790_000_000_000_000_000},
	}
}

// Batch puts jobs.
func Batch(names ...string) *store.Batch {
	var b store.Batch
	for _, name := range names {
		b.Puts = append(b.Puts, Job(name))
	}
	return &b
}

// Own claims a partition.
func Own(t testing.TB, s store.Store, partition int) (store.Shard, store.Holding) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{partition}, Lease)
	if err != nil {
		t.Fatal(err)
	}
	return Shard(t, s, partition, terms[0]), store.Holding{Partition: partition, Term: terms[0]}
}

// Shard is a partition under a term.
func Shard(t testing.TB, s store.Store, partition int, term store.Term) store.Shard {
	t.Helper()
	sh, err := s.Shard(partition, term)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// Want checks how a batch ends.
func Want(t testing.TB, what string, sh store.Shard, b *store.Batch, outcome store.Outcome) {
	t.Helper()
	if err := sh.Apply(t.Context(), b); store.OutcomeOf(err) != outcome {
		t.Fatalf("%s: %v, want outcome %d", what, err, outcome)
	}
}

// Names are the jobs of a partition, by name.
func Names(t testing.TB, sh store.Shard) (out []string) {
	t.Helper()
	Until(t, func() error {
		list, err := sh.List(t.Context(), store.ListQuery{Limit: 100_000})
		out = nil
		for _, r := range list {
			out = append(out, r.Name)
		}
		return err
	})
	return out
}

// WantNames checks which jobs a partition has, by name.
func WantNames(t testing.TB, sh store.Shard, want ...string) {
	t.Helper()
	if got := Names(t, sh); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

// Until calls f until it is no error any more.
func Until(t testing.TB, f func() error) {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err := f(); err != nil; err = f() {
		if patience.Err() != nil {
			t.Fatal(err)
		}
	}
}

// Reown claims until the server answers again.
func Reown(t testing.TB, s store.Store, partition int) store.Shard {
	t.Helper()
	var terms []store.Term
	Until(t, func() (err error) {
		terms, err = s.Leaser().Claim(t.Context(), "node", []int{partition}, Lease)
		return err
	})
	return Shard(t, s, partition, terms[0])
}

// Applied claims a partition and applies a batch, again and again until it is applied, as an owner does that
// is not told what became of one.
func Applied(t testing.TB, s store.Store, partition int, b *store.Batch) (sh store.Shard) {
	t.Helper()
	Until(t, func() error {
		sh = Reown(t, s, partition)
		return sh.Apply(t.Context(), b)
	})
	return sh
}

// CountOf is how many of all are among the names.
func CountOf(names, all []string) (n int) {
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for _, name := range all {
		if there[name] {
			n++
		}
	}
	return n
}
