package redis

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// raw changes the keys of a store beneath everything that looks after them.
type raw struct {
	*testing.T
	s *Store
}

func (r raw) do(words ...string) rueidis.RedisResult {
	r.Helper()
	got := r.s.client.Do(r.Context(), r.s.client.B().Arbitrary(words...).Build())
	if err := got.Error(); err != nil && !rueidis.IsRedisNil(err) {
		r.Fatal(words, err)
	}
	return got
}

// first is the first member or field under one of the names of a partition's keys, of any partition that has
// one as wanted, and the key.
func (r raw) first(name int, wanted func(member string) bool) (key, member string) {
	r.Helper()
	list := []string{"ZRANGE", "", "0", "-1"}
	switch name {
	case keyState, keySpec, keyLive, keyRuns, keyMetaRecords:
		list = []string{"HKEYS", ""}
	}
	for _, keys := range r.s.keys {
		list[1] = keys[name]
		all, err := r.do(list...).AsStrSlice()
		if err != nil {
			r.Fatal(err)
		}
		slices.Sort(all)
		if i := slices.IndexFunc(all, wanted); i >= 0 {
			return keys[name], all[i]
		}
	}
	r.Fatalf("nothing in any %s", keyNames[name])
	return "", ""
}

func whatever(string) bool { return true }

// remove removes a member or a field.
func (r raw) remove(what string, name int, wanted func(member string) bool) {
	r.Helper()
	key, member := r.first(name, wanted)
	r.do(what, key, member)
}

// other adds a member beside the first one, which differs in a byte; from the end if it is negative.
func (r raw) other(name, at int) {
	r.Helper()
	key, member := r.first(name, whatever)
	b := []byte(member)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 2
	r.do("ZADD", key, "0", string(b))
}

// cut cuts the value of the first field short.
func (r raw) cut(name, to int) {
	r.Helper()
	key, field := r.first(name, whatever)
	value, err := r.do("HGET", key, field).ToString()
	if err != nil {
		r.Fatal(err)
	}
	r.do("HSET", key, field, value[:to])
}

func ofJob(name string) func(string) bool {
	return func(member string) bool { return strings.Contains(member, "default\x00"+name+"\x00") }
}

// damages are all faults of a partition's keys, each with what makes it.
var damages = []struct {
	kind   store.FaultKind
	mended bool
	do     func(r raw)
}{
	{store.FaultListMissing, true, func(r raw) { r.remove("ZREM", keyJobs, ofJob("once")) }},
	{store.FaultListMissing, true, func(r raw) { r.remove("ZREM", keyPending, whatever) }},
	{store.FaultListDangling, true, func(r raw) { r.do("ZADD", r.s.keys[0][keyJobs], "0", "default\x00gone\x00\x00") }},
	{store.FaultDueMissing, true, func(r raw) { r.remove("ZREM", keyDue, ofJob("once")) }},
	{store.FaultDueDangling, true, func(r raw) { r.other(keyDue, 8) }},
	{store.FaultStagedMissing, true, func(r raw) { r.remove("ZREM", keyStaged, ofJob("due")) }},
	{store.FaultStagedDangling, true, func(r raw) { r.other(keyStaged, 0) }},
	{store.FaultPhaseMissing, true, func(r raw) { r.remove("ZREM", keyPhases, whatever) }},
	{store.FaultPhaseDangling, true, func(r raw) { r.other(keyPhases, 0) }},
	{store.FaultLiveMissing, true, func(r raw) { r.remove("HDEL", keyLive, whatever) }},
	{store.FaultLiveMissing, true, func(r raw) {
		key, id := r.first(keyLive, whatever)
		r.do("HSET", key, id, "default\x00other\x00\x00")
	}},
	{store.FaultLiveDangling, true, func(r raw) {
		key, id := r.first(keyLive, whatever)
		r.do("HSET", key, string(append([]byte{id[0] ^ 1}, id[1:]...)), "default\x00other\x00\x00")
	}},
	{store.FaultSpecDangling, true, func(r raw) { r.do("HSET", r.s.keys[0][keySpec], "default\x00gone\x00\x00", "spec") }},
	{store.FaultHistoryMissing, true, func(r raw) { r.remove("ZREM", keyHistory, whatever) }},
	{store.FaultHistoryDangling, true, func(r raw) { r.other(keyHistory, -1) }},
	{store.FaultStatusMissing, true, func(r raw) { r.remove("ZREM", keyFinished, whatever) }},
	{store.FaultStatusDangling, true, func(r raw) { r.other(keyFinished, -2) }},
	{store.FaultAgeMissing, true, func(r raw) { r.remove("ZREM", keyAge, whatever) }},
	{store.FaultAgeMissing, true, func(r raw) { r.remove("ZREM", keyDeadAge, whatever) }},
	{store.FaultAgeDangling, true, func(r raw) { r.other(keyAge, 7) }},
	{store.FaultMetaMissing, true, func(r raw) { r.remove("ZREM", keyMetaRecordKeys, whatever) }},
	{store.FaultMetaDangling, true, func(r raw) { r.do("ZADD", r.s.keys[0][keyMetaRecordKeys], "0", "ngone") }},
	{store.FaultRecordUnreadable, false, func(r raw) { r.cut(keyState, 40) }},
	{store.FaultRunUnreadable, false, func(r raw) { r.cut(keyRuns, 20) }},
}

// restored is a store with what the golden backup holds.
func restored(t *testing.T, url string) *Store {
	t.Helper()
	b, err := golden.Backup(1)
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, url, o) }
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(b), open, nil); err != nil {
		t.Fatal(err)
	}
	return reopened(t, url)
}

func reopened(t *testing.T, url string) *Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Store)
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// examined examines a store, and mends it.
func examined(t *testing.T, s *Store, mend bool) map[store.FaultKind]doctor.Tally {
	t.Helper()
	look := doctor.Look
	if mend {
		look = doctor.Mend
	}
	r, err := look(t.Context(), s, doctor.Options{Most: 100})
	if err != nil {
		t.Fatal(err)
	}
	return r.Kinds
}

// TestDoctorOnDamagedKeys damages a store in each way: the doctor names that and nothing else, mends what it
// says it mends, and finds nothing more. A node serves what was mended, and every due run comes.
func TestDoctorOnDamagedKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	server := realserver.StartRedis(t)
	for i, d := range damages {
		t.Run(string(d.kind), func(t *testing.T) {
			url := fmt.Sprintf("redis://%s/0?prefix=damaged-%d", server.Address(), i)
			s := restored(t, url)
			if got := examined(t, s, false); len(got) > 0 {
				t.Fatalf("before: %v", got)
			}
			d.do(raw{t, s})
			one := map[store.FaultKind]doctor.Tally{d.kind: {Found: 1}}
			for range 2 { // to look changes nothing
				if got := examined(t, s, false); !maps.Equal(got, one) {
					t.Fatalf("found: %v", got)
				}
			}
			want, after := one, one
			if d.mended {
				want = map[store.FaultKind]doctor.Tally{d.kind: {Found: 1, Mended: 1}}
				after = map[store.FaultKind]doctor.Tally{}
			}
			if got := examined(t, s, true); !maps.Equal(got, want) {
				t.Errorf("mended: %v, want %v", got, want)
			}
			if got := examined(t, s, false); !maps.Equal(got, after) {
				t.Errorf("afterwards: %v, want %v", got, after)
			}
			closed(t, s)
			if d.mended {
				served(t, url)
			}
		})
	}
}

// served has a node run what is due.
func served(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := golden.Serve(ctx, url, golden.Due(), func(*embedded.Scheduler) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s := reopened(t, url)
	defer closed(t, s)
	if got := examined(t, s, false); len(got) > 0 {
		t.Errorf("after a node: %v", got)
	}
}

// TestMendingIsFenced: who has lost the partition mends nothing, and is told of nothing mended.
func TestMendingIsFenced(t *testing.T) {
	s := restored(t, fmt.Sprintf("redis://%s/0", realserver.StartRedis(t).Address()))
	defer closed(t, s)
	raw{t, s}.remove("ZREM", keyPhases, whatever)
	for p := range s.meta.Partitions {
		terms, err := s.Leaser().Claim(t.Context(), "doctor", []int{p}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Leaser().Release(t.Context(), "doctor", []store.Holding{{Partition: p, Term: terms[0]}}); err != nil {
			t.Fatal(err)
		}
		err = s.Examine(t.Context(), p, terms[0], func(f store.Fault) error { t.Errorf("%+v", f); return nil })
		if err != nil && store.OutcomeOf(err) != store.Fenced {
			t.Error(err)
		}
	}
	if got := examined(t, s, false); got[store.FaultPhaseMissing].Found != 1 {
		t.Error(got)
	}
}
