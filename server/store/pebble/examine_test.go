package pebble

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// raw changes the keys of a store beneath everything that looks after them.
type raw struct {
	*testing.T
	db *pebbledb.DB
}

// first returns the first key of a kind that is as wanted, whatever its partition.
func (r raw) first(kind byte, wanted func(key, value []byte) bool) (key, value []byte) {
	r.Helper()
	_, err := scanAll(source{Reader: r.db}, []byte{0}, appendHead(nil, storePartition, 0), func(k, v []byte) (bool, error) {
		if key == nil && k[headLen-1] == kind && wanted(k, v) {
			key, value = bytes.Clone(k), bytes.Clone(v)
		}
		return key == nil, nil
	})
	if err != nil || key == nil {
		r.Fatalf("no key of kind %c: %v", kind, err)
	}
	return key, value
}

func anyKey(_, _ []byte) bool    { return true }
func empty(_, value []byte) bool { return len(value) == 0 }
func full(_, value []byte) bool  { return len(value) > 0 }

func (r raw) set(key, value []byte) {
	r.Helper()
	if err := r.db.Set(key, value, pebbledb.Sync); err != nil {
		r.Fatal(err)
	}
}

func (r raw) remove(key []byte) {
	r.Helper()
	if err := r.db.Delete(key, pebbledb.Sync); err != nil {
		r.Fatal(err)
	}
}

// removeFirst removes the first key of a kind that is as wanted.
func (r raw) removeFirst(kind byte, wanted func(key, value []byte) bool) {
	r.Helper()
	key, _ := r.first(kind, wanted)
	r.remove(key)
}

// other sets a key beside the first one of a kind, which differs in one byte: that at a place after the head.
func (r raw) other(kind byte, at int, value []byte) {
	r.Helper()
	key, _ := r.first(kind, anyKey)
	key[headLen+at] ^= 1
	r.set(key, value)
}

// cut cuts the value of the first key of a kind short.
func (r raw) cut(kind byte) {
	r.Helper()
	key, value := r.first(kind, func(_, value []byte) bool { return len(value) > 40 })
	r.set(key, value[:len(value)/2])
}

// damages are all faults of a folder, each with what makes it.
var damages = []struct {
	kind   store.FaultKind
	mended bool
	do     func(r raw)
}{
	{store.FaultPhaseMissing, true, func(r raw) { r.removeFirst(kindPhase, anyKey) }},
	{store.FaultPhaseDangling, true, func(r raw) { r.other(kindPhase, 0, nil) }},
	{store.FaultLiveMissing, true, func(r raw) { r.removeFirst(kindLive, anyKey) }},
	{store.FaultLiveMissing, true, func(r raw) {
		key, _ := r.first(kindLive, anyKey)
		r.set(key, ordered.AppendRef(nil, store.Ref{Key: carillon.Key{Namespace: "default", Name: "other"}}))
	}},
	{store.FaultLiveDangling, true, func(r raw) { r.other(kindLive, 20, []byte("nothing")) }},
	{store.FaultStagedMissing, true, func(r raw) { r.removeFirst(kindStaged, empty) }},
	{store.FaultStagedDangling, true, func(r raw) {
		r.set(appendStagedKey(nil, 1, "q", 2, 7, store.Ref{Key: carillon.Key{Namespace: "default", Name: "gone"}}), nil)
	}},
	{store.FaultStagedDangling, true, func(r raw) { // with contents, beside those that its name leads to
		key, value := r.first(kindStaged, full)
		c := ordered.Cutter{B: key[headLen:]}
		queue, priority, due, ref := c.Text(), c.Byte(), c.Time(), c.Ref()
		r.set(appendStagedKey(nil, int(key[1]), queue, priority, due+1, ref), value)
	}},
	{store.FaultDueDangling, true, func(r raw) {
		key, value := r.first(kindDue, anyKey)
		key[headLen+8]++ // the last byte of its time
		r.set(key, value)
	}},
	{store.FaultSpecDangling, true, func(r raw) {
		r.set(appendSpecKey(nil, 1, store.Ref{Key: carillon.Key{Namespace: "default", Name: "gone"}}), []byte("spec"))
	}},
	{store.FaultAgeMissing, true, func(r raw) { r.removeFirst(kindAge, anyKey) }},
	{store.FaultAgeMissing, true, func(r raw) { // it says that the run is dead
		key, _ := r.first(kindAge, func(_, value []byte) bool { return bytes.Equal(value, notDead) })
		r.set(key, isDead)
	}},
	{store.FaultAgeDangling, true, func(r raw) { r.other(kindAge, 7, notDead) }},
	{store.FaultStatusMissing, true, func(r raw) { r.removeFirst(kindFinished, anyKey) }},
	{store.FaultStatusDangling, true, func(r raw) { r.other(kindFinished, 0, nil) }},
	{store.FaultKeyUnknown, false, func(r raw) { r.set(appendHead(nil, 1, '?'), []byte("?")) }},
	{store.FaultNameMissing, false, func(r raw) {
		_, value := r.first(kindDue, anyKey)
		r.set(appendDueKey(nil, 1, 2, 1<<62, store.Ref{Key: carillon.Key{Namespace: "default", Name: "gone"}}), value)
	}},
	{store.FaultRecordUnreadable, false, func(r raw) { r.cut(kindDue) }},
	{store.FaultRunUnreadable, false, func(r raw) { r.cut(kindHistory) }},
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

// TestDoctorOnDamagedFolders damages a store in each way: the doctor names that and nothing else, mends what
// it says it mends, and finds nothing more. A node serves what was mended, and every due run comes.
func TestDoctorOnDamagedFolders(t *testing.T) {
	for _, d := range damages {
		t.Run(string(d.kind), func(t *testing.T) {
			t.Parallel()
			url, err := golden.Store(4, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := reopened(t, url)
			d.do(raw{t, s.engines.now.db})
			one := map[store.FaultKind]doctor.Tally{d.kind: {Found: 1}}
			for range 2 { // to look changes nothing
				if got := examined(t, s, false); !maps.Equal(got, one) {
					t.Fatalf("found: %v", got)
				}
			}
			want, after := one, one
			if d.mended {
				want, after = map[store.FaultKind]doctor.Tally{d.kind: {Found: 1, Mended: 1}}, map[store.FaultKind]doctor.Tally{}
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

func reopened(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(folderOf(url), Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// served has a node run what is due, after which nothing is wrong either: no entry comes back that was
// removed twice, or stays that was written twice.
func served(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := golden.Serve(ctx, url, golden.Due(), func(s *embedded.Scheduler) error {
		_, err := s.DeleteJob(ctx, carillon.Key{Namespace: "billing", Name: "invoice"})
		return err
	})
	if err != nil {
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
	url, err := golden.Store(4, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := reopened(t, url)
	defer closed(t, s)
	raw{t, s.engines.now.db}.removeFirst(kindPhase, anyKey)
	for p := range s.meta.Partitions {
		terms, err := s.Leaser().Claim(t.Context(), "doctor", []int{p}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Leaser().Release(t.Context(), "doctor", []store.Holding{{Partition: p, Term: terms[0]}}); err != nil {
			t.Fatal(err)
		}
		err = s.Examine(t.Context(), p, terms[0], func(f store.Fault) error { t.Errorf("%+v", f); return nil })
		if err != nil && !errors.Is(err, store.ErrFenced) {
			t.Error(err)
		}
	}
	if got := examined(t, s, false); got[store.FaultPhaseMissing].Found != 1 {
		t.Error(got)
	}
}

// TestDamagesAreAllFaults: each fault that a folder can have is made by a test.
func TestDamagesAreAllFaults(t *testing.T) {
	var made []store.FaultKind
	for _, d := range damages {
		made = append(made, d.kind)
	}
	// A folder has no lists apart from the records themselves.
	made = append(made, store.FaultListMissing, store.FaultListDangling, store.FaultDueMissing,
		store.FaultHistoryMissing, store.FaultHistoryDangling, store.FaultMetaMissing, store.FaultMetaDangling)
	for _, k := range doctor.Kinds()[:doctor.EngineKinds] {
		if !slices.Contains(made, k.Kind) {
			t.Errorf("nothing makes %s", k.Kind)
		}
	}
}
