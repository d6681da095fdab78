package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// TestADeletedJobGivesItsTokensBack: permits of attempts that an earlier owner handed out and that have not
// been read since.
func TestADeletedJobGivesItsTokensBack(t *testing.T) {
	r, c := limited(t, 3, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", ConcurrencyKey: "k", Schedule: "@every 9h", Lease: 5 * time.Hour})
	r.mustPut(carillon.Job{Name: "b", ConcurrencyKey: "k", Due: carillon.In(0), Lease: 5 * time.Hour})
	for range 2 {
		r.bring(keyA)
		if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
	if ds, _ := r.granted(); len(ds) != 3 {
		t.Fatalf("%d leave", len(ds))
	}
	r.start()
	if c.inForce = len(r.held); c.inForce != 3 || r.m.Stats().Resident != 0 {
		t.Fatalf("%d tokens, in memory %+v", c.inForce, r.m.Stats())
	}
	r.bring(keyA)
	if _, err := r.m.Jobs.Delete(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	if c.inForce != 3 {
		t.Fatal("free before the delete is durable")
	}
	r.flush()
	if small := r.small(store.KindLimited); c.inForce != 1 || len(small) != 1 {
		t.Fatalf("%d tokens, the store has %v", c.inForce, small)
	}
	r.bring(carillon.Key{Namespace: carillon.DefaultNamespace, Name: "b"})
	if _, err := r.m.Jobs.Delete(r.now, carillon.Key{Namespace: carillon.DefaultNamespace,
		Name: "b"}); err != nil {
		t.Fatal(err)
	}
	if r.flush(); c.inForce != 0 || len(r.small(store.KindLimited)) != 0 {
		t.Fatalf("%d tokens are left", c.inForce)
	}
}
