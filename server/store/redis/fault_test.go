package redis_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
	"github.com/carillonhq/carillon/server/store/storetest"
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
	list, err := sh.List(t.Context(), store.ListQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

func wantNames(t *testing.T, sh store.Shard, want ...string) {
	t.Helper()
	if got := names(t, sh); !slices.Equal(got, want) {
		t.Errorf("jobs %q, want %q", got, want)
	}
}

// Whether a batch was applied is unknown if no answer comes, and known again once the partition was claimed.
func TestNoAnswerIsUnknown(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	o.Timeout = 200 * time.Millisecond
	var failed error
	recovered := false
	o.Events = store.Events{Failed: func(err error) { failed = err }, Recovered: func() { recovered = true }}
	s := open(t, o)
	sh, _ := own(t, s, 3)
	r.Freeze(t)
	want(t, "frozen", sh, batch("a"), store.Unknown)
	if !errors.Is(failed, store.ErrUnknown) {
		t.Errorf("Failed was told %v", failed)
	}
	r.Thaw(t)
	reown(t, s, 3)
	wantFenced(t, sh, batch("b"))
	again := applied(t, s, 3, batch("c"))
	if got := names(t, again); !slices.Equal(got, []string{"c"}) && !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("jobs %q", got)
	}
	if !recovered {
		t.Error("Recovered was not told")
	}
}

// reown claims until the server answers again.
func reown(t *testing.T, s store.Store, partition int) store.Shard {
	t.Helper()
	var terms []store.Term
	until(t, func() (err error) {
		terms, err = s.Leaser().Claim(t.Context(), "node", []int{partition}, lease)
		return err
	})
	return shardOf(t, s, partition, terms[0])
}

// wantFenced applies a batch until it is known that it was not and never will be: a connection that turns out
// to be broken says nothing.
func wantFenced(t *testing.T, sh store.Shard, b *store.Batch) {
	t.Helper()
	until(t, func() error {
		switch err := sh.Apply(t.Context(), b); store.OutcomeOf(err) {
		case store.Fenced:
			return nil
		case store.Applied:
			t.Fatal("a deposed owner has written")
			return nil
		default:
			return err
		}
	})
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

// until calls f until it is no error any more: after a restart each of several connections has to find out.
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

// Nothing was applied if there is nobody to connect to.
func TestNobodyThere(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := own(t, s, 3)
	r.Crash(t)
	// the first ones find out that their connections are broken, which is to know nothing
	until(t, func() error {
		err := sh.Apply(t.Context(), batch("a"))
		switch store.OutcomeOf(err) {
		case store.NotApplied:
			return nil
		case store.Unknown:
			return err
		default:
			t.Fatalf("nobody there: %v", err)
			return nil
		}
	})
	r.Up(t)
	again := reown(t, s, 3)
	wantNames(t, again)
}

// Where memory is exhausted a batch is refused before it begins.
func TestOutOfMemory(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := own(t, s, 3)
	want(t, "before", sh, batch("a", "b"), store.Applied)
	r.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b := batch("c")
	b.Deletes = []store.Ref{job("a").Ref}
	want(t, "out of memory", sh, b, store.NotApplied)
	r.Do(t, "CONFIG", "SET", "maxmemory", "0")
	wantNames(t, sh, "a", "b")
	want(t, "after", sh, b, store.Applied)
	wantNames(t, sh, "b", "c")
}

// Scripts that the server has forgotten are sent again.
func TestForgottenScripts(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, held := own(t, s, 3)
	for _, name := range []string{"a", "b"} {
		r.Do(t, "SCRIPT", "FLUSH")
		want(t, name, sh, batch(name), store.Applied)
		if _, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, lease); err != nil {
			t.Error(err)
		}
	}
	wantNames(t, sh, "a", "b")
}

// A batch beyond the bounds is refused as a whole.
func TestBounds(t *testing.T) {
	s := open(t, fresh(realserver.StartRedis(t)))
	sh, _ := own(t, s, 3)
	many := &store.Batch{Deletes: make([]store.Ref, redis.MaxBatchItems+1)}
	want(t, "too many items", sh, many, store.NotApplied)
	long := batch("a")
	long.Puts[0].Spec = make([]byte, redis.MaxBatchBytes)
	want(t, "too many bytes", sh, long, store.NotApplied)
	wantNames(t, sh)
	many.Deletes = many.Deletes[1:]
	want(t, "as many as may be", sh, many, store.Applied)
}

// A server of a cluster that goes down takes its partitions along and no others, and they are back when it
// is.
func TestAClusterLosesANode(t *testing.T) {
	nodes := realserver.StartRedisCluster(t, 3, "cluster-require-full-coverage=no")
	s := open(t, fresh(nodes...))
	shards := map[int]store.Shard{}
	for p := range 12 {
		shards[p], _ = own(t, s, p)
		want(t, "before", shards[p], batch("a"), store.Applied)
	}
	nodes[1].Crash(t)
	down := 0
	for p, sh := range shards {
		if err := sh.Apply(t.Context(), batch("b")); err != nil {
			down++
			delete(shards, p)
		}
	}
	if down == 0 || down == 12 {
		t.Errorf("%d of 12 partitions are down with one of three servers", down)
	}
	nodes[1].Up(t)
	for p := range 12 {
		if sh, ok := shards[p]; ok {
			// on a machine with much else to do the servers may lose sight of each other for a while
			until(t, func() error {
				err := sh.Apply(t.Context(), batch("c"))
				if store.OutcomeOf(err) == store.Fenced {
					t.Fatal("the crash of another server deposed an owner")
				}
				return err
			})
			wantNames(t, sh, "a", "b", "c")
			continue
		}
		again := applied(t, s, p, batch("c"))
		if got := names(t, again); got[0] != "a" || got[len(got)-1] != "c" {
			t.Errorf("partition %d has %q", p, got)
		}
	}
}

// What a node leaves behind when all of its jobs are gone is who owned what, and how the store was created.
func TestNothingIsLeftBehind(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := own(t, s, 3)
	b := batch("a", "b")
	b.Puts[1].State.Phase, b.Puts[1].State.Run.Live, b.Puts[1].State.Queue = carillon.PhaseStaged, true, "q"
	for i, status := range []carillon.RunStatus{carillon.RunDead, carillon.RunFailed} {
		b.Runs = append(b.Runs, store.RunRecord{Key: job("a").Key,
			ID: store.RunID{Partition: 3, Seq: uint64(i)}, Status: status, Expires: 1})
	}
	b.MetaRecords = []store.MetaRecord{{Kind: 1, Key: "k", Value: []byte("v")}}
	want(t, "put", sh, b, store.Applied)
	if n := r.Do(t, "DBSIZE"); n != "16" {
		t.Errorf("%s keys, want 15 of the partition, for there is no pending run, and meta", n)
	}
	want(t, "take away", sh, &store.Batch{Deletes: []store.Ref{job("a").Ref, job("b").Ref},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k"}},
		Expire:      &store.Expire{Before: 2, Most: 100, Limit: 100}}, store.Applied)
	if n := r.Do(t, "DBSIZE"); n != "2" {
		t.Errorf("%s keys are left, want owner and meta: %s", n, r.Do(t, "KEYS", "*"))
	}
}

func TestClosed(t *testing.T) {
	s := open(t, fresh(realserver.StartRedis(t)))
	sh, _ := own(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sh.Apply(t.Context(), batch("a")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Apply to a closed store: %v", err)
	}
	if _, err := sh.Read(t.Context(), []store.Ref{job("a").Ref}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Read of a closed store: %v", err)
	}
}

// Settings that keep less than a store should are told.
func TestWarnings(t *testing.T) {
	const refused = "CONFIG is refused"
	for _, c := range []struct {
		settings []string
		want     []string
	}{
		{nil, nil},
		{[]string{"appendonly=no"}, []string{"no append-only file"}},
		{[]string{"appendfsync=everysec"}, []string{"appendfsync is everysec"}},
		{[]string{"maxmemory-policy=allkeys-lru"}, []string{"maxmemory-policy is allkeys-lru"}},
		{[]string{"maxmemory-policy=volatile-lru"}, nil}, // no key of ours has an end
		{[]string{"no-appendfsync-on-rewrite=yes", refused}, []string{"CONFIG is refused"}},
		{[]string{"no-appendfsync-on-rewrite=yes"}, []string{"no-appendfsync-on-rewrite is yes"}},
	} {
		t.Run(strings.Join(c.settings, " "), func(t *testing.T) {
			r := realserver.StartRedis(t,
				slices.DeleteFunc(slices.Clone(c.settings), func(s string) bool { return s == refused })...)
			if slices.Contains(c.settings, refused) {
				r.Do(t, "ACL", "SETUSER", "default", "-config")
			}
			o := fresh(r)
			var got storetest.Warnings
			o.Log = &got
			open(t, o)
			if len(got) != len(c.want) {
				t.Fatalf("warnings %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("warning %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}
