package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestAJobThatEndsWhileItIsSetAsideIsRemoved(t *testing.T) {
	r := newRig(t, partition.Config{})
	due := carillon.At(time.Unix(0, epoch))
	if _, err := r.put(carillon.Job{Name: "a", Schedule: "@every 10s", Due: due,
		TTL: carillon.In(5 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	r.m.Tick(r.now) // due, and blocked until the put is durable
	r.pauseLater("a", true)
	r.pauseLater("a", false)
	r.flush()
	r.advance(time.Minute)
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
}

// TestRunsThatWaitForTokensDoNotFillMemory while more and more of them are triggered.
func TestRunsThatWaitForTokensDoNotFillMemory(t *testing.T) {
	r, c := limited(t, 0, partition.Config{WindowJobs: 8})
	r.mustPut(carillon.Job{Name: "a", ConcurrencyKey: "k", Schedule: "@yearly"})
	for range 40 {
		r.bring(keyA)
		if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	r.m.Deliver(nil, r.now, queueQ, 100, false, nil)
	if r.now += 2e9; !r.m.Window.Crowded(r.now) {
		t.Fatalf("%+v, and nothing is to be parked", r.m.Stats())
	}
	r.m.Window.StageAside(r.now, 100)
	r.flush()
	if n := r.m.Stats().Resident; n > 8 {
		t.Fatalf("%d are in memory", n)
	}
	c.most = 100
	for range 10 {
		r.tellTokens(c)
		r.m.Deliver(nil, r.now, queueQ, 100, false, nil)
		r.m.Permits.ReturnUnused()
		ds, _ := r.granted()
		for _, d := range ds {
			r.attempts = append(r.attempts, d)
			r.succeed(d)
		}
	}
	if r.flush(); len(r.attempts) != 40 || c.inForce != 0 {
		t.Fatalf("%d have run", len(r.attempts))
	}
}
