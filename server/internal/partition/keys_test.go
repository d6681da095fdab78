package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// keysOf are the keys that the store has.
func (r *rig) keysOf() []access.Key {
	r.t.Helper()
	all, damaged := partition.DecodeKeys(r.small(store.KindKey))
	if len(damaged) > 0 {
		r.t.Fatal(damaged)
	}
	return all
}

// TestKeysAreStored, once each, marked by the hour, rotated once, and removed for good.
func TestKeysAreStored(t *testing.T) {
	r := newRig(t, partition.Config{})
	hour := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	k := access.Key{Hash: access.Hash{7}, AccessKey: carillon.AccessKey{ID: "one", Note: "n", Created: hour,
		Grants: []carillon.AccessGrant{{Role: carillon.RoleWorker, Namespaces: []string{"a"}, Queues: []string{"q"}}}}}
	do := func(f func()) {
		r.m.Begin()
		f()
		r.flush()
	}
	do(func() {
		if err := r.m.Keys.Create(k); err != nil {
			t.Error(err)
		}
		if err := r.m.Keys.Create(k); err != nil { // the call comes again
			t.Error(err)
		}
		other := k
		other.Hash[0]++
		if err := r.m.Keys.Create(other); !errors.Is(err, carillon.AlreadyExists) {
			t.Error(err)
		}
	})
	if all := r.keysOf(); len(all) != 1 || all[0].Hash != k.Hash || all[0].Grants[0].Queues[0] != "q" {
		t.Fatalf("%+v", all)
	}
	do(func() {
		r.m.Keys.Use([]access.Use{{ID: "one", Hour: hour.Add(time.Hour)}, {ID: "none", Hour: hour}})
		r.m.Keys.Use([]access.Use{{ID: "one", Hour: hour}}) // of another node, late
	})
	if all := r.keysOf(); len(all) != 1 || !all[0].LastUsed.Equal(hour.Add(time.Hour)) {
		t.Fatalf("%+v", all)
	}
	next, _ := k.Rotate("somebody", time.Hour, hour)
	do(func() {
		for range 2 { // the call comes again
			if done, err := r.m.Keys.Rotate(next, k.Hash); !done || err != nil {
				t.Error(done, err)
			}
		}
		late, _ := k.Rotate("another", 0, hour)
		if _, err := r.m.Keys.Rotate(late, k.Hash); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("two rotations at the same time: %v", err)
		}
	})
	if all := r.keysOf(); len(all) != 1 || all[0].Hash != next.Hash || all[0].Before != k.Hash || all[0].Rotator != "somebody" ||
		!all[0].LastUsed.Equal(hour.Add(time.Hour)) || !all[0].OverlapEnds.Equal(hour.Add(time.Hour)) {
		t.Fatalf("%+v", all)
	}
	do(func() {
		if !r.m.Keys.Revoke("one") || r.m.Keys.Revoke("one") {
			t.Error("it was not removed once")
		}
		r.m.Keys.Use([]access.Use{{ID: "one", Hour: hour.Add(2 * time.Hour)}}) // which was under way
		if done, err := r.m.Keys.Rotate(next, k.Hash); done || err != nil {
			t.Errorf("a revoked key is rotated: %v, %v", done, err)
		}
	})
	if all := r.keysOf(); len(all) != 0 {
		t.Errorf("a revoked key is back: %+v", all)
	}
}

// TestThereAreNotTooManyKeys: the error says what to do.
func TestThereAreNotTooManyKeys(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.m.Begin()
	for i := range carillon.MaxKeys + 1 {
		id, _, hash := access.Mint()
		err := r.m.Keys.Create(access.Key{Hash: hash, AccessKey: carillon.AccessKey{ID: id}})
		if (err == nil) != (i < carillon.MaxKeys) || err != nil && !errors.Is(err, carillon.ResourceExhausted) {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	r.flush()
}

// TestTheFirstKeyIsOne: of several that are to be the first one is made, and the call may come again.
func TestTheFirstKeyIsOne(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.m.Begin()
	for i, want := range []bool{true, true, false, false} {
		key := access.Key{Hash: access.Hash{byte(i / 2)}, AccessKey: carillon.AccessKey{ID: "one"}}
		if i == 3 {
			key.ID = "another"
		}
		if done, err := r.m.Keys.CreateFirst(key); done != want || err != nil {
			t.Errorf("%d: %v, %v", i, done, err)
		}
	}
	r.flush()
	if all := r.keysOf(); len(all) != 1 || all[0].ID != "one" {
		t.Errorf("%+v", all)
	}
}

// TestADamagedKeyIsLeftOut, and the others are read.
func TestADamagedKeyIsLeftOut(t *testing.T) {
	var records []store.MetaRecord
	for i, id := range []string{"one", "two", "three"} {
		k := access.Key{Hash: access.Hash{byte(i)}, AccessKey: carillon.AccessKey{ID: id,
			Grants: []carillon.AccessGrant{{Role: carillon.RoleViewer, Namespaces: []string{"a"}}}}}
		records = append(records, partition.KeyRecord(&k))
	}
	records[1].Value = records[1].Value[:len(records[1].Value)/2]
	all, damaged := partition.DecodeKeys(records)
	if len(all) != 2 || all[0].ID != "one" || all[1].ID != "three" {
		t.Errorf("%+v", all)
	}
	if len(damaged) != 1 || !errors.Is(damaged[0], store.ErrDamaged) {
		t.Errorf("%v", damaged)
	}
}
