package partition_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

func (r *rig) putIf(j carillon.Job, o carillon.PutOptions) (carillon.PutResult, error) {
	j.Namespace, j.Target = carillon.DefaultNamespace, carillon.WorkerQueue("q")
	r.bring(j.Key())
	r.uids++
	p, err := r.m.Put(r.now, partition.PutRequest{Job: &j, Options: o, Random: [8]byte{byte(r.uids), 1}})
	r.flush()
	return p, err
}

func TestPutModes(t *testing.T) {
	r := newRig(t, partition.Config{})
	hourly, daily := carillon.Job{Name: "a", Schedule: "@hourly"}, carillon.Job{Name: "a", Schedule: "@daily"}
	if _, err := r.putIf(hourly, carillon.PutOptions{IfGeneration: 1}); !errors.Is(err, carillon.FailedPrecondition) {
		t.Fatalf("generation 1 of no job: %v", err)
	}
	first, err := r.putIf(hourly, carillon.PutOptions{IfAbsent: true})
	if err != nil || !first.Created || first.Job.Status.Generation != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	for _, o := range []carillon.PutOptions{{IfAbsent: true}, {IfGeneration: 2}} {
		want := carillon.FailedPrecondition
		if o.IfAbsent {
			want = carillon.AlreadyExists
		}
		if _, err := r.putIf(daily, o); !errors.Is(err, want) {
			t.Fatalf("%+v: %v", o, err)
		}
		r.start()
		r.bring(keyOf("a"))
		if j, err := r.m.Records.Job(keyOf("a")); err != nil || j.Schedule != "@hourly" || j.Status.Generation != 1 {
			t.Fatalf("%+v changed it: %+v %v", o, j, err)
		}
	}
	second, err := r.putIf(daily, carillon.PutOptions{IfGeneration: 1})
	if err != nil || second.Created || !second.Changed || second.Job.Status.Generation != 2 || second.Job.Status.UID != first.Job.Status.UID {
		t.Fatalf("%+v %v", second, err)
	}
	r.bring(keyOf("a"))
	if _, err := r.m.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	third, err := r.putIf(daily, carillon.PutOptions{IfAbsent: true})
	if err != nil || !third.Created || third.Job.Status.Generation != 1 || third.Job.Status.UID == first.Job.Status.UID {
		t.Fatalf("after a delete: %+v %v", third, err)
	}
}

func TestAPatchChangesWhatItNames(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Labels: map[string]string{"k": "v"}, Note: "n", Paused: true})
	r.advance(5 * time.Second)
	patch := func(p carillon.Patch) (carillon.PutResult, error) {
		r.bring(keyOf("a"))
		put, err := r.m.Patch(r.now, 0, keyOf("a"), p)
		r.flush()
		return put, err
	}
	put, err := patch(carillon.Patch{Fields: []string{"overlap", "labels"}, Job: carillon.Job{Overlap: carillon.OverlapAllow, Note: "not named"}})
	if err != nil || put.Job.Overlap != carillon.OverlapAllow || len(put.Job.Labels) != 0 || put.Job.Note != "n" || !put.Job.Paused ||
		put.Job.Status.Generation != 2 {
		t.Fatalf("%+v %v", put, err)
	}
	put, err = patch(carillon.Patch{Fields: []string{"paused"}, Job: carillon.Job{}, IfGeneration: 2})
	if err != nil || put.Job.Paused || put.Job.Status.NextRun.UnixNano() != epoch+10e9 {
		t.Fatalf("the phase is lost: %+v %v", put.Job.Status, err)
	}
	for want, p := range map[carillon.Kind]carillon.Patch{
		carillon.FailedPrecondition: {Fields: []string{"note"}, IfGeneration: 1},
		carillon.InvalidArgument:    {Fields: []string{"schedule"}, Job: carillon.Job{Schedule: "never"}},
	} {
		if _, err := patch(p); !errors.Is(err, want) {
			t.Fatalf("%+v: %v", p, err)
		}
	}
	if _, err := r.m.Patch(r.now, 0, keyOf("b"), carillon.Patch{Fields: []string{"note"}}); !errors.Is(err, carillon.NotFound) {
		t.Fatalf("no job: %v", err)
	}
	r.start()
	r.bring(keyOf("a"))
	if j, err := r.m.Records.Job(keyOf("a")); err != nil || j.Schedule != "@every 10s" || j.Note != "n" || j.Overlap != carillon.OverlapAllow {
		t.Fatalf("%+v %v", j, err)
	}
}

func TestAJobKeepsAsMuchHistoryAsItSays(t *testing.T) {
	r := newRig(t, partition.Config{})
	keeps := map[string]carillon.History{"default": {}, "three": {Runs: 3}, "none": {Runs: -1}, "short": {Runs: 100, Keep: 20 * time.Second}}
	for name, h := range keeps {
		r.mustPut(carillon.Job{Name: name, Schedule: "@every 1s", History: h})
	}
	for range 100 {
		r.advance(time.Second)
		for _, d := range r.deliver(10) {
			r.succeed(d)
		}
		r.flush()
	}
	r.m.History.Sweep(r.now)
	r.flush()
	for name, want := range map[string][2]int{"default": {20, 29}, "three": {3, 12}, "none": {0, 0}, "short": {20, 21}} {
		h := r.history(name)
		if len(h) < want[0] || len(h) > want[1] {
			t.Errorf("%s: %d runs are kept, want %v", name, len(h), want)
		}
		for i := range h { // the newest, without a gap
			if h[i].ID.Scheduled != epoch+int64(100-i)*1e9 {
				t.Errorf("%s: run %d is of %v", name, i, h[i].ID.ScheduledTime())
			}
		}
	}
}

// TestAStoredFieldWithoutEffect patches a one-shot that was stored when it could have a misfire rule. It runs
// as usual.
func TestAStoredFieldWithoutEffect(t *testing.T) {
	r := newRig(t, partition.Config{})
	old := carillon.Job{Name: "a", Due: carillon.In(time.Minute), Misfire: carillon.MisfireAll, CatchUpLimit: 3, Overlap: carillon.OverlapAllow}
	if _, err := r.putIf(old, carillon.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.bring(keyOf("a"))
	if put, err := r.m.Patch(r.now, 0, keyOf("a"), carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}}); err != nil || !put.Changed {
		t.Fatalf("%+v, %v", put, err)
	}
	r.flush()
	r.bring(keyOf("a"))
	_, err := r.m.Patch(r.now, 0, keyOf("a"), carillon.Patch{Fields: []string{"misfire"}, Job: carillon.Job{Misfire: carillon.MisfireSkip}})
	if !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("another misfire rule: %v", err)
	}
	r.advance(time.Minute)
	if ds := r.deliver(1); len(ds) != 1 {
		t.Errorf("%d runs", len(ds))
	}
}
