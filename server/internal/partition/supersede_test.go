package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestAStagedRunFollowsItsJobToAnotherQueue(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("q")})
		r.advance(time.Hour)
		r.trigger("a")
		r.flush()
		r.advance(2 * time.Second)
		if n := r.m.Window.Stage(queueQ, r.now, 10); n != 2 {
			t.Fatalf("staged %d", n)
		}
		r.flush()
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("other")})
		if restart {
			r.start()
		}
		r.advance(2 * time.Second)
		if ds := r.deliverFrom(queueNamed("other"), 10); len(ds) != 2 {
			t.Fatalf("restart %v: %d of 2 delivered to the new queue", restart, len(ds))
		}
		if ds := r.deliverFrom(queueQ, 10); len(ds) != 0 {
			t.Fatalf("%d delivered to the old queue", len(ds))
		}
	}
}

func TestATriggeredRunFollowsItsJobsDurablePut(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("q")})
	r.trigger("a")
	r.flush()
	if _, err := r.put(carillon.Job{Name: "a", Schedule: "@every 1h",
		Target: carillon.WorkerQueue("other")}); err != nil {
		t.Fatal(err)
	}
	r.take()
	if ds := append(r.deliverFrom(queueQ, 5), r.deliverFrom(queueNamed("other"), 5)...); len(ds) != 0 {
		t.Fatalf("handed out with content that is not durable: %+v", ds)
	}
	r.flush()
	if ds := r.deliverFrom(queueQ, 5); len(ds) != 0 {
		t.Fatalf("delivered to the old queue: %+v", ds)
	}
	if ds := r.deliverFrom(queueNamed("other"), 5); len(ds) != 1 {
		t.Fatalf("got %+v", ds)
	}
}

func TestEditFencesTheAttemptInForce(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes([]byte("old"), "")})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	put := r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes([]byte("new"), "")})
	if put.Job.Status.Generation != 2 {
		t.Fatalf("generation %d", put.Job.Status.Generation)
	}
	if v := r.succeed(d); v != partition.Stale {
		t.Fatalf("result of the old generation: %v", v)
	}
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.ID != d.Run.ID || ds[0].Run.Attempt != 2 ||
		string(ds[0].Run.Data.Bytes) != "new" {
		t.Fatalf("got %+v", ds)
	}
	r.succeed(ds[0])
	r.advance(time.Hour)
	if ds := r.deliver(2); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(2*time.Hour) {
		t.Fatalf("phase lost: %+v", ds)
	}
}

func TestLabelsDoNotFence(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h"})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Labels: map[string]string{"x": "y"}, Note: "hello"})
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
}
