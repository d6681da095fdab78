package partition_test

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// replaceRequest returns a put of the job "a". All of the job is brought into memory first, as the engine
// does.
func (r *rig) replaceRequest(j carillon.Job, o carillon.PutOptions) message.PutRequest {
	j.Namespace, j.Name = carillon.DefaultNamespace, "a"
	if j.Target.Kind() == "" {
		j.Target = carillon.WorkerQueue("q")
	}
	r.whole(keyA)
	req := message.PutRequest{Job: &j, Options: o}
	for _, name := range j.DependsOn {
		req.Waits = append(req.Waits, store.Wait{Name: name})
	}
	r.uids++
	binary.BigEndian.PutUint64(req.Random[:], r.uids)
	return req
}

// whole brings the job into memory with all its pending runs.
func (r *rig) whole(k carillon.Key) {
	r.bring(k)
	for last := uint64(0); ; {
		refs := r.m.Records.Absent(k, last, 100)
		if len(refs) == 0 {
			return
		}
		r.m.Load(r.read(refs), r.now)
		last = refs[len(refs)-1].Seq
	}
}

// lives are jobs in all the states that a job can be in when another one replaces it.
var lives = map[string]func(r *rig){
	"nothing": func(*rig) {},
	"waits":   func(r *rig) { r.mustPut(carillon.Job{Name: "a", Schedule: "@hourly"}) },
	"beyond memory": func(r *rig) {
		r.mustPut(carillon.Job{Name: "a", Schedule: "@yearly", Data: long})
	},
	"paused": func(r *rig) {
		r.mustPut(carillon.Job{Name: "a", Schedule: "@hourly", Paused: true, Note: "why"})
	},
	"depends_on": func(r *rig) { r.mustPut(carillon.Job{Name: "a", DependsOn: []string{"b"}}) },
	"due": func(r *rig) {
		r.mustPut(carillon.Job{Name: "a", Due: carillon.In(0), Priority: carillon.PriorityCritical})
	},
	"running": func(r *rig) { r.mustPut(everySecond); r.advance(time.Second); r.deliver(1) },
	"run durably": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.deliver(1)
		r.advance(4 * time.Second)
	},
	"delivery pending": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.m.Deliver(nil, r.now, queueQ, 1, true, nil)
	},
	"retrying": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.failRun(r.deliver(1)[0])
		r.flush()
	},
	"staged": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.m.Window.Stage(queueQ, r.now, 1)
		r.flush()
	},
	"parking": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.m.Window.Stage(queueQ, r.now, 1)
	},
	"recalled": func(r *rig) {
		r.mustPut(everySecond)
		r.advance(time.Second)
		r.m.Window.Stage(queueQ, r.now, 1)
		r.flush()
		r.recall()
	},
	"pending": func(r *rig) {
		r.mustPut(everySecond)
		for range 5 {
			r.trigger("a")
		}
		r.flush()
		r.deliver(2)
	},
	"pending, not in memory": func(r *rig) {
		r.mustPut(everySecond)
		for range 5 {
			r.trigger("a")
		}
		r.flush()
		r.m.Window.Stage(queueQ, r.now, 3)
		r.flush()
		r.deliver(1)
		r.start()
	},
	"backfill": func(r *rig) {
		r.mustPut(everySecond)
		r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 20e9), To: instant(epoch - 1),
			Overlap: carillon.OverlapAllow})
		r.deliver(5)
	},
	"beside each other": func(r *rig) {
		j := everySecond
		j.Overlap = carillon.OverlapAllow
		r.mustPut(j)
		r.advance(5 * time.Second)
		r.deliver(3)
	},
	"put in the same batch": func(r *rig) {
		if _, err := r.put(carillon.Job{Name: "a", Due: carillon.In(0),
			Priority: carillon.PriorityLow}); err != nil {
			r.t.Fatal(err)
		}
	},
	"redriven": func(r *rig) {
		r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
		r.failRun(r.deliver(1)[0])
		r.flush()
		if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
			r.t.Fatal(err)
		}
		r.flush()
	},
}

var everySecond = carillon.Job{Name: "a", Schedule: "@every 1s",
	FailurePolicy: carillon.Constant(time.Minute), Data: long}

// TestAPutAnewIsADeleteAndAPut compares the two: they leave the same in the store and in memory, whatever the
// older job was doing. The put needs only one batch, and before that is durable everything is as it was.
func TestAPutAnewIsADeleteAndAPut(t *testing.T) {
	for name, begin := range lives {
		for what, j := range map[string]carillon.Job{
			"the same": everySecond,
			"another":  {Schedule: "@every 2s", Priority: carillon.PriorityHigh, Paused: true},
			"once":     {Due: carillon.In(time.Second), DependsOn: []string{"b"}},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				ours, theirs := newRig(t, partition.Config{}), newRig(t, partition.Config{})
				begin(ours)
				begin(theirs)
				put, err := ours.m.Jobs.Put(ours.now, ours.replaceRequest(j, carillon.PutOptions{Replace: true}))
				if err != nil || !put.Created || !put.Changed {
					t.Fatalf("%+v %v", put, err)
				}
				req := theirs.replaceRequest(j, carillon.PutOptions{})
				deleted, err := theirs.m.Jobs.Delete(theirs.now, keyA)
				if existed := err == nil; existed != (name != "nothing") {
					t.Fatal(err)
				}
				want, err := theirs.m.Jobs.Put(theirs.now, req)
				if err != nil || !reflect.DeepEqual(put, want) {
					t.Fatalf("put %+v, want %+v (%v)", put, want, err)
				}
				ours.step()
				theirs.step()
				if a, b := ours.told(), theirs.told(); (len(a) > 0) != deleted.Interrupted || !slices.Equal(a, b) {
					t.Fatalf("told to stop %v, want %v", a, b)
				}
				oneStep(t, ours, put.Job.Status.UID)
				theirs.flush()
				sameStores(t, ours, theirs)
				if a, b := ours.m.Stats(), theirs.m.Stats(); a != b {
					t.Fatalf("in memory %+v, want %+v", a, b)
				}
				ours.recall()
				if ours.flush(); len(ours.small(store.KindParked)) != 0 {
					t.Fatal("it says that runs are parked")
				}
			})
		}
	}
}

// told returns the runs whose consumers were told to stop, and the queue of each.
func (r *rig) told() (out []string) {
	for _, c := range r.cancels {
		out = append(out, c.Queue.String()+r.token(c.Token).Run.String())
	}
	return out
}

// oneStep applies the batches and checks that the new job comes in the batch that ends the old one.
func oneStep(t *testing.T, r *rig, uid carillon.UID) {
	t.Helper()
	for r.take(); len(r.batches) > 0; r.take() {
		before := r.read([]store.Ref{{Key: keyA}})[0]
		r.land()
		after := r.read([]store.Ref{{Key: keyA}})[0]
		if before.Exists && !after.Exists {
			t.Fatal("there is a moment without the job")
		}
		if after.State.UID != uid {
			continue
		}
		for seq := range uint64(50) {
			if p := r.read([]store.Ref{{Key: keyA, Seq: seq + 1}})[0]; p.Exists {
				t.Fatalf("the new job has a run of the old one: %+v", p.State)
			}
		}
		if left := r.backfills(partition.UnfinishedBackfills); len(left) > 0 {
			t.Fatal("the new job has a backfill of the old one")
		}
	}
}

// sameStores compares what two rigs have stored of the job "a".
func sameStores(t *testing.T, ours, theirs *rig) {
	t.Helper()
	ours.flush()
	a, b := ours.read([]store.Ref{{Key: keyA}})[0], theirs.read([]store.Ref{{Key: keyA}})[0]
	a.State.Triggers, b.State.Triggers = 0, 0 // continues in one and restarts in the other, as does the next
	a.State.Kept, b.State.Kept = 0, 0
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("stored\n%+v, want\n%+v", a, b)
	}
	ra, rb := ours.history("a"), theirs.history("a")
	for i := range rb {
		rb[i].Grant.Term, rb[i].Cursor = store.Term{}, nil // each store has terms of its own
		if rb[i].Reason == partition.ReasonDeleted {
			rb[i].Reason = partition.ReasonReplaced
		}
	}
	for i := range ra {
		ra[i].Grant.Term, ra[i].Cursor = store.Term{}, nil
	}
	if !reflect.DeepEqual(ra, rb) {
		t.Fatalf("history\n%+v, want\n%+v", ra, rb)
	}
}

// TestAPutAnewThatIsRefusedChangesNothing.
func TestAPutAnewThatIsRefusedChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		job     carillon.Job
		options carillon.PutOptions
		want    error
	}{
		"it exists": {everySecond, carillon.PutOptions{Replace: true, IfAbsent: true},
			carillon.AlreadyExists},
		"another generation": {everySecond, carillon.PutOptions{Replace: true, IfGeneration: 7},
			carillon.FailedPrecondition},
		"it ends first": {carillon.Job{Schedule: "@hourly", TTL: carillon.In(time.Minute)},
			carillon.PutOptions{Replace: true}, carillon.ErrEndsFirst},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(everySecond)
			r.trigger("a")
			r.flush()
			ds := r.deliver(1)
			before := r.m.Stats()
			if _, err := r.m.Jobs.Put(r.now, r.replaceRequest(c.job, c.options)); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if r.take(); len(r.batches) != 0 || r.m.Stats() != before {
				t.Fatalf("it leaves a trace: %+v, %+v", r.batches, r.m.Stats())
			}
			if v := r.succeed(ds[0]); v != partition.Accepted {
				t.Fatalf("verdict %v", v)
			}
		})
	}
}

// TestAPutAnewOverTheRightGeneration begins again at generation 1.
func TestAPutAnewOverTheRightGeneration(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@hourly"})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@daily"})
	put, err := r.m.Jobs.Put(r.now, r.replaceRequest(carillon.Job{Schedule: "@daily"},
		carillon.PutOptions{Replace: true, IfGeneration: 2}))
	if err != nil || put.Job.Status.Generation != 1 {
		t.Fatalf("%+v %v", put, err)
	}
}

// TestNoRunOfAnOlderJobIsHeardOf: its tokens are stale, its run ids are not used by the new job, and pending
// runs are numbered on.
func TestNoRunOfAnOlderJobIsHeardOf(t *testing.T) {
	r := newRig(t, partition.Config{})
	seen := map[string]bool{}
	for range 5 {
		j := carillon.Job{Due: carillon.At(toTime(epoch)), History: carillon.History{Runs: 10_000}}
		if _, err := r.m.Jobs.Put(r.now, r.replaceRequest(j, carillon.PutOptions{Replace: true})); err != nil {
			t.Fatal(err)
		}
		r.trigger("a") // in the same batch
		r.flush()
		for _, d := range r.attempts {
			if v := r.succeed(d); v != partition.Stale {
				t.Fatalf("a result of an older job: %v", v)
			}
		}
		ds := r.deliver(5)
		if len(ds) != 2 || seen[ds[0].Run.ID] || seen[ds[1].Run.ID] {
			t.Fatalf("delivered %+v, after %v", ds, seen)
		}
		seen[ds[0].Run.ID], seen[ds[1].Run.ID] = true, true
		r.advance(5 * time.Second)
	}
	cancelled := 0
	for _, h := range r.history("a") {
		if h.Status == carillon.RunCancelled && h.Reason == partition.ReasonReplaced {
			cancelled++
		}
	}
	if cancelled != 8 {
		t.Fatalf("%d of 8 runs are in the history as cancelled: %+v", cancelled, r.history("a"))
	}
}
