package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// Whether a batch was applied is unknown if no answer comes, and known again once the partition was claimed.
func TestNoAnswerIsUnknown(t *testing.T) {
	r := realserver.StartRedis(t)
	o := fresh(r)
	o.Timeout = 200 * time.Millisecond
	var failed error
	recovered := false
	o.Events = store.Events{Failed: func(err error) { failed = err }, Recovered: func() { recovered = true }}
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	r.Freeze(t)
	servertest.Want(t, "frozen", sh, servertest.Batch("a"), store.Unknown)
	if !errors.Is(failed, store.ErrUnknown) {
		t.Errorf("Failed was told %v", failed)
	}
	r.Thaw(t)
	servertest.Reown(t, s, 3)
	wantFenced(t, sh, servertest.Batch("b"))
	again := servertest.Applied(t, s, 3, servertest.Batch("c"))
	if got := servertest.Names(t, again); !slices.Equal(got, []string{"c"}) && !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("jobs %q", got)
	}
	if !recovered {
		t.Error("Recovered was not told")
	}
}

// wantFenced applies a batch until it is known that it was not and never will be: a connection that turns out
// to be broken says nothing.
func wantFenced(t *testing.T, sh store.Shard, b *store.Batch) {
	t.Helper()
	servertest.Until(t, func() error {
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

// Nothing was applied if there is nobody to connect to.
func TestNobodyThere(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := servertest.Own(t, s, 3)
	r.Crash(t)
	// the first ones find out that their connections are broken, which is to know nothing
	servertest.Until(t, func() error {
		err := sh.Apply(t.Context(), servertest.Batch("a"))
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
	again := servertest.Reown(t, s, 3)
	servertest.WantNames(t, again)
}

// Where memory is exhausted a batch is refused before it begins.
func TestOutOfMemory(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a", "b"), store.Applied)
	r.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b := servertest.Batch("c")
	b.Deletes = []store.Ref{servertest.Job("a").Ref}
	servertest.Want(t, "out of memory", sh, b, store.NotApplied)
	r.Do(t, "CONFIG", "SET", "maxmemory", "0")
	servertest.WantNames(t, sh, "a", "b")
	servertest.Want(t, "after", sh, b, store.Applied)
	servertest.WantNames(t, sh, "b", "c")
}

// Scripts that the server has forgotten are sent again.
func TestForgottenScripts(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, held := servertest.Own(t, s, 3)
	for _, name := range []string{"a", "b"} {
		r.Do(t, "SCRIPT", "FLUSH")
		servertest.Want(t, name, sh, servertest.Batch(name), store.Applied)
		if _, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, servertest.Lease); err != nil {
			t.Error(err)
		}
	}
	servertest.WantNames(t, sh, "a", "b")
}

// A batch beyond the bounds is refused as a whole.
func TestBounds(t *testing.T) {
	s := open(t, fresh(realserver.StartRedis(t)))
	sh, _ := servertest.Own(t, s, 3)
	many := &store.Batch{Deletes: make([]store.Ref, redis.MaxBatchItems+1)}
	servertest.Want(t, "too many items", sh, many, store.NotApplied)
	long := servertest.Batch("a")
	long.Puts[0].Spec = make([]byte, redis.MaxBatchBytes)
	servertest.Want(t, "too many bytes", sh, long, store.NotApplied)
	servertest.WantNames(t, sh)
	many.Deletes = many.Deletes[1:]
	servertest.Want(t, "as many as may be", sh, many, store.Applied)
}

// A server of a cluster that goes down takes its partitions along and no others, and they are back when it
// is.
func TestAClusterLosesANode(t *testing.T) {
	nodes := realserver.StartRedisCluster(t, 3, "cluster-require-full-coverage=no")
	s := open(t, fresh(nodes...))
	shards := map[int]store.Shard{}
	for p := range 12 {
		shards[p], _ = servertest.Own(t, s, p)
		servertest.Want(t, "before", shards[p], servertest.Batch("a"), store.Applied)
	}
	nodes[1].Crash(t)
	down := 0
	for p, sh := range shards {
		if err := sh.Apply(t.Context(), servertest.Batch("b")); err != nil {
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
			servertest.Until(t, func() error {
				err := sh.Apply(t.Context(), servertest.Batch("c"))
				if store.OutcomeOf(err) == store.Fenced {
					t.Fatal("the crash of another server deposed an owner")
				}
				return err
			})
			servertest.WantNames(t, sh, "a", "b", "c")
			continue
		}
		again := servertest.Applied(t, s, p, servertest.Batch("c"))
		if got := servertest.Names(t, again); got[0] != "a" || got[len(got)-1] != "c" {
			t.Errorf("partition %d has %q", p, got)
		}
	}
}

// What a node leaves behind when all of its jobs are gone is who owned what, and how the store was created.
func TestNothingIsLeftBehind(t *testing.T) {
	r := realserver.StartRedis(t)
	s := open(t, fresh(r))
	sh, _ := servertest.Own(t, s, 3)
	b := servertest.Batch("a", "b")
	b.Puts[1].State.Phase, b.Puts[1].State.Run.Live, b.Puts[1].State.Queue = carillon.PhaseStaged, true, "q"
	for i, status := range []carillon.RunStatus{carillon.RunDead, carillon.RunFailed} {
		b.Runs = append(b.Runs, store.RunRecord{Key: servertest.Job("a").Key,
			ID: store.RunID{Partition: 3, Seq: uint64(i)}, Status: status, Expires: 1})
	}
	b.MetaRecords = []store.MetaRecord{{Kind: 1, Key: "k", Value: []byte("v")}}
	servertest.Want(t, "put", sh, b, store.Applied)
	if n := r.Do(t, "DBSIZE"); n != "16" {
		t.Errorf("%s keys, want 15 of the partition, for there is no pending run, and meta", n)
	}
	servertest.Want(t, "take away", sh, &store.Batch{Deletes: []store.Ref{servertest.Job("a").Ref, servertest.Job("b").Ref},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k"}},
		Expire:      &store.Expire{Before: 2, Most: 100, Limit: 100}}, store.Applied)
	if n := r.Do(t, "DBSIZE"); n != "2" {
		t.Errorf("%s keys are left, want owner and meta: %s", n, r.Do(t, "KEYS", "*"))
	}
}

func TestClosed(t *testing.T) {
	s := open(t, fresh(realserver.StartRedis(t)))
	sh, _ := servertest.Own(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sh.Apply(t.Context(), servertest.Batch("a")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Apply to a closed store: %v", err)
	}
	if _, err := sh.Read(t.Context(), []store.Ref{servertest.Job("a").Ref}); !errors.Is(err, store.ErrClosed) {
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
