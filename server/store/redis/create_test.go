package redis_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
)

// keyOf is the name that the key that signs tokens has in a format.
var keyOf = map[int]string{1: "mackey", 2: "signing_key", 3: "token_key", 4: "key_4", 5: "key_5"}

// ofFormat is a store as programs of an older format made it, with the job "a" in partition 3.
func ofFormat(t *testing.T, r *realserver.Redis, format int) (o redis.Options, key string) {
	t.Helper()
	o = fresh(r)
	s := open(t, o)
	sh, held := servertest.Own(t, s, 3)
	servertest.Want(t, "a write", sh, servertest.Batch("a"), store.Applied)
	if err := s.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
		t.Fatal(err)
	}
	key = string(s.Meta().MACKey)
	r.Do(t, "HSET", metaOf(o), "format", strconv.Itoa(format), keyOf[format], key)
	r.Do(t, "HDEL", metaOf(o), "key_6")
	return o, key
}

func metaOf(o redis.Options) string { return "{" + o.Prefix + "}:meta" }

// TestAnOlderStoreIsTakenOver: nobody lives that knows only its format. It becomes one of this, and keeps
// what is in it.
func TestAnOlderStoreIsTakenOver(t *testing.T) {
	r := realserver.StartRedis(t)
	for format := range keyOf {
		t.Run(fmt.Sprintf("format %d", format), func(t *testing.T) { takenOver(t, r, format) })
	}
}

func takenOver(t *testing.T, r *realserver.Redis, format int) {
	o, key := ofFormat(t, r, format)
	for range 2 { // the second start changes nothing
		s := open(t, o)
		if m := s.Meta(); m.Format != store.Format() || string(m.MACKey) != key {
			t.Errorf("format %d, another key: %v", m.Format, string(m.MACKey) != key)
		}
		sh, held := servertest.Own(t, s, 3)
		servertest.WantNames(t, sh, "a")
		if err := s.Leaser().Release(t.Context(), "node", []store.Holding{held}); err != nil {
			t.Fatal(err)
		}
		if format := r.Do(t, "HGET", metaOf(o), "format"); format != strconv.Itoa(store.Format()) {
			t.Errorf("the format that is written: %q", format)
		}
		// A node of that format that opened it before asks for the key by this name when it joins and claims.
		if there := r.Do(t, "HEXISTS", metaOf(o), keyOf[format]); there != "0" {
			t.Errorf("the key under the name that it had: %q", there)
		}
	}
}

// asFormat2 makes of a partition what programs of format 2 have of it.
const asFormat2 = `
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
  local v = redis.call('HGET', KEYS[1], id)
  local dead = string.byte(v, 1) == 6
  redis.call('HSET', KEYS[1], id, (dead and '\1' or '\0') .. string.sub(v, 2))
  local n1, n2 = string.byte(v, 18, 19)
  local member = string.sub(v, 22, 21 + n1 * 256 + n2) .. string.sub(v, 10, 17) .. id
  if dead then redis.call('ZADD', KEYS[2], 0, member) end -- the others had none
end
redis.call('DEL', KEYS[3], KEYS[4])
return 'OK'`

// TestWhatAnOlderStoreHoldsIsListed by phase and by status, whoever of several starts makes the lists, and leaves
// them as it leaves the store. An owner that was halted meanwhile writes nothing more.
func TestWhatAnOlderStoreHoldsIsListed(t *testing.T) {
	const jobs = 2500 // more than a script looks at
	r := realserver.StartRedis(t)
	o, _ := ofFormat(t, r, 2)
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	b := servertest.Batch()
	for i := range jobs {
		k := carillon.Key{Namespace: "default", Name: fmt.Sprint("job-", i)}
		b.Puts = append(b.Puts,
			store.Record{Ref: store.Ref{Key: k}, Spec: []byte{}, State: store.State{Phase: carillon.Phase(i % 7), Due: int64(i % 2)}},
			store.Record{Ref: store.Ref{Key: k, Seq: uint64(i + 1)}, State: store.State{Phase: carillon.Phase(i % 5), Queue: "q"}})
		b.Runs = append(b.Runs, store.RunRecord{Key: k, ID: store.RunID{Partition: 3, UID: store.NewUID(k, [8]byte{}), Scheduled: 5,
			Seq: uint64(i)}, Grant: store.Grant{Generation: uint64(i)}, Finished: int64(i % 99),
			Expires: math.MaxInt64, Status: carillon.RunSucceeded + carillon.RunStatus(i%5)})
	}
	servertest.Want(t, "much", sh, b, store.Applied)
	listed := lists(t, sh)
	if len(listed) < 2*jobs {
		t.Fatalf("%d entries of lists", len(listed))
	}
	part := "{" + o.Prefix + ":3}:"
	r.Do(t, "EVAL", asFormat2, "4", part+"runs", part+"dead", part+"finished", part+"phases")
	key := string(s.Meta().MACKey)
	r.Do(t, "HSET", metaOf(o), "format", "2", keyOf[2], key)
	r.Do(t, "HDEL", metaOf(o), "key_6")
	for p := range s.Meta().Partitions + 1 {
		r.Do(t, "HDEL", fmt.Sprintf("{%s:%d}:owner", o.Prefix, p), "format")
	}
	var starts sync.WaitGroup
	for range 3 {
		starts.Go(func() {
			if s, err := redis.Open(t.Context(), o); err != nil {
				t.Error(err)
			} else {
				_ = s.Close()
			}
		})
	}
	starts.Wait()
	servertest.Want(t, "a write of the owner of before", sh, servertest.Batch("late"), store.Fenced)
	s = open(t, o)
	sh, _ = servertest.Own(t, s, 3)
	if got := lists(t, sh); !slices.Equal(got, listed) {
		t.Errorf("%d entries of lists, want %d", len(got), len(listed))
	}
	gone := servertest.Batch()
	for i := range jobs {
		gone.Deletes = append(gone.Deletes, store.Ref{Key: carillon.Key{Namespace: "default", Name: fmt.Sprint("job-", i)}})
	}
	gone.Expire = &store.Expire{Before: math.MaxInt64, Limit: jobs}
	servertest.Want(t, "all goes", sh, gone, store.Applied)
	for _, name := range []string{"dead", "finished", "phases", "runs", "history", "age", "deadage", "pending"} {
		if there := r.Do(t, "EXISTS", part+name); there != "0" {
			t.Errorf("something is left of %s", name)
		}
	}
}

// lists are what the lists by phase and by status have.
func lists(t *testing.T, sh store.Shard) (out []string) {
	t.Helper()
	for phase := carillon.PhaseReady; phase <= carillon.PhaseWaiting; phase++ {
		found, err := sh.List(t.Context(), store.ListQuery{Phase: &phase, Pending: true, Limit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			out = append(out, fmt.Sprint(phase, r.Ref, r.State.Phase))
		}
	}
	for status := carillon.RunSucceeded; status <= carillon.RunSkipped; status++ {
		found, err := sh.Runs(t.Context(), store.RunQuery{Namespace: "default", Status: &status, Limit: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			out = append(out, fmt.Sprint(status, r.ID, r.Status, r.Finished))
		}
	}
	return out
}

// TestAnOlderStoreStaysUnderOlderNodes: a node of format 1 lives, be it of a build that wrote until when it
// does or one that also wrote for how long. The start is refused, and all is as it was.
func TestAnOlderStoreStaysUnderOlderNodes(t *testing.T) {
	r := realserver.StartRedis(t)
	o, _ := ofFormat(t, r, 1)
	members := "{" + o.Prefix + "}:members"
	till := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	for _, lives := range []string{till + ` {"address":"host:1"}`, till + ` 3600000000 7 {"address":"host:1"}`} {
		r.Do(t, "HSET", members, "n1", lives)
		_, err := redis.Open(t.Context(), o)
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "n1") ||
			!strings.Contains(err.Error(), "format is 1") {
			t.Errorf("under a node that lives: %v", err)
		}
		if format := r.Do(t, "HGET", metaOf(o), "format"); format != "1" {
			t.Errorf("the format has become %q", format)
		}
	}
	// Dead, and one from before the clock was set back.
	r.Do(t, "HSET", members, "n1", `1000 1000 7 {"address":"host:1"}`, "n2", till+` 1000 7 {"address":"host:2"}`)
	open(t, o)
}
