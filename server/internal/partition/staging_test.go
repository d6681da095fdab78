package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func TestAParkedBacklogOfLargeJobsStaysOutOfMemory(t *testing.T) {
	r := newRig(t, partition.Config{WindowJobs: 64, WindowBytes: 64 << 10})
	for i := range 600 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("j%d", i), Data: carillon.Bytes(make([]byte, 8<<10), "")})
		r.m.Window.Stage(queueQ, r.now, 10)
		r.flush()
	}
	r.start()
	done := map[string]bool{}
	for range 600 {
		if sq, ok := r.m.Window.WantStaged(queueQ, 32); ok {
			records, err := r.shard.Staged(context.Background(), sq)
			if err != nil {
				t.Fatal(err)
			}
			r.m.LoadStaged(queueQ, sq, records, r.now)
		}
		r.flush()
		if s := r.m.Stats(); s.Resident > 128 || s.Bytes > 1<<20 {
			t.Fatalf("in memory: %+v", s)
		}
		for _, d := range r.deliver(2) {
			done[d.Run.Job] = true
			r.succeed(d)
		}
		r.flush()
	}
	if len(done) != 600 {
		t.Fatalf("%d of 600 ran", len(done))
	}
}

func TestStagingCostsNoAttemptAndNoMemory(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range 40 {
		r.mustPut(carillon.Job{Name: string(rune('a'+i%26)) + string(rune('a'+i/26))})
	}
	r.advance(2 * time.Second)
	if n := r.m.Window.Stage(queueQ, r.now, 1000); n != 40 {
		t.Fatalf("staged %d", n)
	}
	r.flush()
	if s := r.m.Stats(); s.Resident != 0 {
		t.Fatalf("in memory: %+v", s)
	}
	r.start() // everything restarts
	if ds := r.deliver(100); len(ds) != 0 {
		t.Fatal("delivered without a consumer")
	}
	r.recall()
	ds := r.deliver(35)
	if len(ds) != 35 {
		t.Fatalf("delivered %d", len(ds))
	}
	for _, d := range ds {
		if d.Run.Attempt != 1 {
			t.Fatalf("attempt %d", d.Run.Attempt)
		}
		r.succeed(d)
	}
	r.flush()
	if n := len(r.jobs()); n != 5 {
		t.Fatalf("%d jobs stay", n)
	}
}

func TestStagedJobsCanBeDeletedAndReplaced(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "gone"})
	r.mustPut(carillon.Job{Name: "new", Data: carillon.Bytes([]byte("1"), "")})
	r.advance(2 * time.Second)
	r.m.Window.Stage(queueQ, r.now, 1000)
	r.flush()
	gone := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "gone"}
	r.bring(gone)
	if _, err := r.m.Jobs.Delete(r.now, gone); err != nil {
		t.Fatal(err)
	}
	r.mustPut(carillon.Job{Name: "new", Data: carillon.Bytes([]byte("2"), "")})
	r.flush()
	r.recall()
	ds := r.deliver(10)
	if len(ds) != 1 || string(ds[0].Run.Data.Bytes) != "2" {
		t.Fatalf("got %+v", ds)
	}
}

func TestWhatIsRecordedOfParkedQueuesIsDurable(t *testing.T) {
	r := newRig(t, partition.Config{})
	put := func(name, queue string) {
		r.mustPut(carillon.Job{Name: name, Target: carillon.WorkerQueue(queue)})
	}
	recorded := func(what string, changed bool) {
		t.Helper()
		before := r.m.Queues.Recorded()
		r.land()
		if got := r.m.Queues.Recorded(); got != before && !changed || got != r.durable && changed {
			t.Errorf("%s: recorded %d, before it was %d, durable is %d", what, got, before, r.durable)
		}
	}
	put("a1", "a")
	put("b1", "b")
	put("a2", "a")
	r.m.Window.Stage(queueNamed("a"), r.now, 1)
	r.take() // on its way
	before := r.m.Queues.Recorded()
	r.m.Window.Stage(queueNamed("b"), r.now, 1)
	if got := r.m.Queues.Recorded(); got != before {
		t.Errorf("nothing is durable, and %d is recorded", got)
	}
	recorded("a is parked", true)
	recorded("b is parked", true)
	r.m.Window.Stage(queueNamed("a"), r.now, 1)
	recorded("more of a is parked", false)
	for _, d := range r.deliverFrom(queueNamed("b"), 1) {
		r.succeed(d)
	}
	recorded("the run of b has ended", false)
	recorded("b is no longer parked", true)
	recorded("nothing", false)
	if got := r.small(store.KindParked); len(got) != 1 || got[0].Key != queueNamed("a").String() {
		t.Errorf("parked: %v", got)
	}
}
