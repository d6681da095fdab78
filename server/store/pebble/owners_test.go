package pebble

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon/server/store"
)

// memoryDB is a Pebble in memory.
func memoryDB(t *testing.T) *pebbledb.DB {
	t.Helper()
	db, err := pebbledb.Open("db", &pebbledb.Options{FS: vfs.NewMem(), Logger: &listener{log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// commitTo makes durable what f writes.
func commitTo(t *testing.T, db *pebbledb.DB, f func(out *pebbledb.Batch) error) {
	t.Helper()
	out := db.NewBatch()
	if err := errors.Join(f(out), out.Commit(pebbledb.Sync)); err != nil {
		t.Fatal(err)
	}
}

// TestTermsAreGreaterThanAllBefore: after another open as well, even if the last claims did not reach the
// disk. Nobody holds anything then.
func TestTermsAreGreaterThanAllBefore(t *testing.T) {
	db, now := memoryDB(t), time.Unix(1000, 0).UTC()
	var last uint64
	for boot := range uint64(4) {
		o, err := loadOwners(db, 2, boot)
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range o.list() {
			if own.Node != "" {
				t.Errorf("boot %d: %s holds partition %d", boot, own.Node, own.Partition)
			}
		}
		for range 3 {
			claim := func(out *pebbledb.Batch) error {
				terms, err := o.claim(out, "node", []int{1}, now, time.Second)
				if err != nil || terms[0].Epoch <= last {
					t.Fatalf("boot %d: after epoch %d %+v, %v", boot, last, terms, err)
				}
				last = terms[0].Epoch
				return nil
			}
			if boot == 2 { // the disk's cache is lost
				if err := claim(db.NewBatch()); err != nil {
					t.Fatal(err)
				}
			} else {
				commitTo(t, db, claim)
			}
		}
	}
}

// TestAnEarlierProcessMayHaveHeldALease until the last one that it gave out would have ended.
func TestAnEarlierProcessMayHaveHeldALease(t *testing.T) {
	db, now := memoryDB(t), time.Unix(1000, 0).UTC()
	o, err := loadOwners(db, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	var term store.Term
	commitTo(t, db, func(out *pebbledb.Batch) error {
		terms, err := o.claim(out, "node", []int{0, 1}, now, time.Minute)
		term = terms[0]
		return err
	})
	commitTo(t, db, func(out *pebbledb.Batch) error { // a shorter lease does not end the longer one
		lost, err := o.renew(out, "node", []store.Holding{{Partition: 0, Term: term}, {Partition: 1, Term: term}},
			now.Add(time.Second))
		if len(lost) != 1 || lost[0].Partition != 1 {
			t.Errorf("lost are %v", lost)
		}
		return err
	})
	if o, err = loadOwners(db, 2, 2); err != nil {
		t.Fatal(err)
	}
	for _, own := range o.list() {
		if own.Node != "" || !own.Until.Equal(now.Add(time.Minute)) {
			t.Errorf("%+v", own)
		}
	}
}

// TestAPartitionHasOneOwner: another node gets it when it is released or its lease has run out, and the term
// before is not in force any more.
func TestAPartitionHasOneOwner(t *testing.T) {
	db, now := memoryDB(t), time.Unix(1000, 0).UTC()
	o, err := loadOwners(db, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(node string, at time.Time) store.Term {
		terms, err := o.claim(db.NewBatch(), node, []int{0}, at, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return terms[0]
	}
	inForce := func(term store.Term) bool { return o.holdAll([]change{{shard: &shard{term: term}}}) }
	a := claim("a", now)
	if b := claim("b", now.Add(time.Minute-1)); !b.IsZero() || !inForce(a) {
		t.Fatalf("b gets %v while a holds it", b)
	}
	b := claim("b", now.Add(time.Minute))
	if b.IsZero() || inForce(a) || !inForce(b) || inForce(store.Term{}) {
		t.Fatalf("when a's lease has run out b gets %v; in force: %v, %v", b, inForce(a), inForce(b))
	}
	o.release("a", []store.Holding{{Term: a}})
	o.release("a", []store.Holding{{Term: b}})
	if !inForce(b) {
		t.Error("a has released what b holds")
	}
	if o.release("b", []store.Holding{{Term: b}}); inForce(b) {
		t.Error("it is in force after its release")
	}
	if claim("a", now).IsZero() {
		t.Error("a does not get what was released")
	}
}

func TestDamagedOwnersAreNotLoaded(t *testing.T) {
	for name, c := range map[string]struct {
		key   []byte
		bytes int
	}{"a short key": {[]byte{0}, 16}, "a partition that is not": {[]byte{0, 9}, 16},
		"a short value": {[]byte{0, 1}, 15}} {
		db := memoryDB(t)
		commitTo(t, db, func(out *pebbledb.Batch) error {
			return out.Set(append(appendHead(nil, storePartition, kindOwner), c.key...), make([]byte, c.bytes), nil)
		})
		if _, err := loadOwners(db, 2, 1); !errors.Is(err, errKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
