package servertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Cut is a connection that tests break.
type Cut struct {
	Break func()
	Heal  func()
}

// NoAnswer tests a store whose server is halted: whether a batch was applied is unknown if no answer comes,
// and known again once the partition was claimed. failed and recovered are what the store's events have told.
func NoAnswer(t *testing.T, s store.Store, freeze, thaw func(), failed func() error, recovered func() bool) {
	t.Helper()
	sh, _ := Own(t, s, 3)
	Want(t, "nothing", sh, Batch(), store.Applied) // it has been read
	freeze()
	Want(t, "frozen", sh, Batch("a"), store.Unknown)
	if err := failed(); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("Failed was told %v", err)
	}
	thaw()
	Reown(t, s, 3)
	Want(t, "the old term", sh, Batch("b"), store.Fenced)
	again := Applied(t, s, 3, Batch("c"))
	if got := Names(t, again); !slices.Equal(got, []string{"c"}) && !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("jobs %q", got)
	}
	if !recovered() {
		t.Error("Recovered was not told")
	}
}

// WholeOrNothing tests batches of so many jobs, which need several writes, whose connection is cut at a
// random moment within some time. What another store reads is all of a batch, or nothing; what the next owner
// reads is that and stays so.
func WholeOrNothing(t *testing.T, s store.Store, reader store.Shard, c Cut, times, many int,
	within time.Duration) {
	t.Helper()
	ends := map[store.Outcome]int{}
	for i := range times {
		sh := Reown(t, s, 3)
		var all []string
		for j := range many {
			all = append(all, fmt.Sprintf("%03d-%04d", i, j))
		}
		done := make(chan error, 1)
		go func() { done <- sh.Apply(t.Context(), Batch(all...)) }()
		after := time.NewTimer(rand.N(within))
		select {
		case <-after.C:
		case err := <-done:
			done <- err
		}
		c.Break()
		err := <-done
		seen := CountOf(Names(t, reader), all)
		c.Heal()
		next := Reown(t, s, 3)
		is := CountOf(Names(t, next), all)
		outcome := store.OutcomeOf(err)
		ends[outcome]++
		if seen != 0 && seen != many || is != 0 && is != many || seen > is ||
			outcome == store.Applied && is != many || outcome == store.NotApplied && is != 0 {
			t.Fatalf("batch %d ended with %v: a reader saw %d of it, the next owner %d of %d", i, err, seen, is, many)
		}
		next = Applied(t, s, 3, Batch("next"))
		if now := CountOf(Names(t, next), all); now != is {
			t.Fatalf("batch %d: the next owner saw %d of it, and %d after a batch of its own", i, is, now)
		}
		var gone store.Batch
		for _, name := range all {
			gone.Deletes = append(gone.Deletes, Job(name).Ref)
		}
		Applied(t, s, 3, &gone)
	}
	t.Logf("how batches ended: %v", ends)
}

// LosesOne tests a store on three servers, of which each is killed in turn: the store goes on. With two of
// them lost it refuses or knows nothing, and goes on when one is back.
func LosesOne[V Server](t *testing.T, s store.Store, servers []V) {
	t.Helper()
	Applied(t, s, 3, Batch("first"))
	wanted := []string{"first"}
	for i, v := range servers {
		v.Crash(t)
		name := fmt.Sprint("without-", i)
		sh := Applied(t, s, 3, Batch(name))
		wanted = append(wanted, name)
		WantNames(t, sh, wanted...)
		v.Up(t)
	}
	sh := Reown(t, s, 3)
	servers[0].Crash(t)
	servers[1].Crash(t)
	err := sh.Apply(t.Context(), Batch("zero"))
	if o := store.OutcomeOf(err); o != store.NotApplied && o != store.Unknown {
		t.Errorf("one of three is left: %v", err)
	}
	servers[1].Up(t)
	Applied(t, s, 3, Batch("last"))
	got := slices.DeleteFunc(Names(t, Reown(t, s, 3)), func(name string) bool { return name == "zero" })
	if want := slices.Sorted(slices.Values(append(wanted, "last"))); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

// Replaced tests who opened a store that another one is in the place of, or none, once empty has been called:
// it claims nothing, and joins nothing. open opens another one.
func Replaced(t *testing.T, s store.Store, empty, open func(), replaced error) {
	t.Helper()
	Own(t, s, 3)
	empty()
	claim := func() error {
		_, err := s.Leaser().Claim(t.Context(), "node", []int{3}, Lease)
		return err
	}
	Until(t, func() error {
		if err := claim(); !errors.Is(err, replaced) {
			return fmt.Errorf("none in its place: %w", err)
		}
		return nil
	})
	open()
	if err := claim(); !errors.Is(err, replaced) {
		t.Errorf("another in its place: %v", err)
	}
	if err := s.Leaser().Join(t.Context(), store.Member{ID: "n", Nonce: 1}, Lease); !errors.Is(err, replaced) {
		t.Errorf("a join of another store: %v", err)
	}
}
