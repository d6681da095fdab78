package partition_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func (r *rig) putIf(j carillon.Job, o carillon.PutOptions) (carillon.PutResult, error) {
	j.Namespace, j.Target = carillon.DefaultNamespace, carillon.WorkerQueue("q")
	r.bring(j.Key())
	r.uids++
	p, err := r.m.Jobs.Put(r.now, message.PutRequest{Job: &j, Options: o, Random: [8]byte{byte(r.uids), 1}})
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
		if j, err := r.m.Records.Job(keyOf("a")); err != nil || j.Schedule != "@hourly" ||
			j.Status.Generation != 1 {
			t.Fatalf("%+v changed it: %+v %v", o, j, err)
		}
	}
	second, err := r.putIf(daily, carillon.PutOptions{IfGeneration: 1})
	if err != nil || second.Created || !second.Changed || second.Job.Status.Generation != 2 ||
		second.Job.Status.UID != first.Job.Status.UID {
		t.Fatalf("%+v %v", second, err)
	}
	r.bring(keyOf("a"))
	if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	third, err := r.putIf(daily, carillon.PutOptions{IfAbsent: true})
	if err != nil || !third.Created || third.Job.Status.Generation != 1 ||
		third.Job.Status.UID == first.Job.Status.UID {
		t.Fatalf("after a delete: %+v %v", third, err)
	}
}

// TestAStoredFieldWithoutEffect patches a one-shot that was stored when it could have a misfire rule. It runs
// as usual.
func TestAStoredFieldWithoutEffect(t *testing.T) {
	r := newRig(t, partition.Config{})
	old := carillon.Job{Name: "a", Due: carillon.In(time.Minute),
		Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 3}, Overlap: carillon.OverlapAllow}
	if _, err := r.putIf(old, carillon.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.bring(keyOf("a"))
	if put, err := r.m.Jobs.Patch(r.now, 0, keyOf("a"),
		carillon.Patch{Fields: []string{"note"}, Job: carillon.Job{Note: "n"}}, ""); err != nil || !put.Changed {
		t.Fatalf("%+v, %v", put, err)
	}
	r.flush()
	r.bring(keyOf("a"))
	_, err := r.m.Jobs.Patch(r.now, 0, keyOf("a"),
		carillon.Patch{Fields: []string{"misfire"},
			Job: carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}}}, "")
	if !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("another misfire rule: %v", err)
	}
	r.advance(time.Minute)
	if ds := r.deliver(1); len(ds) != 1 {
		t.Errorf("%d runs", len(ds))
	}
}

// TestAOneShotAtATimeThatRunsAlready replaces a job under OverlapAllow while its run of that very time goes
// on beside another. The two would have the same id.
func TestAOneShotAtATimeThatRunsAlready(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapAllow})
	r.advance(10 * time.Second)
	r.deliver(1)
	r.advance(10 * time.Second)
	beside := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.At(beside.Run.Scheduled)})
	ids := map[string]bool{}
	for range 3 {
		for _, d := range r.deliver(5) {
			if ids[d.Run.ID] {
				t.Fatalf("two runs have the id %s", d.Run.ID)
			}
			ids[d.Run.ID] = true
			if v := r.succeed(d); v != partition.Accepted {
				t.Fatal(v)
			}
		}
		r.flush()
	}
	if !ids[beside.Run.ID] || len(ids) != 1 || len(r.jobs()) != 0 {
		t.Fatalf("%d runs, left %+v", len(ids), r.jobs())
	}
}

// TestAJobThatCameBackForOneRunCanBePut puts a deleted job again while a dead run of it is redriven.
func TestAJobThatCameBackForOneRunCanBePut(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 10s",
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)}
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	backfilled := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 10e9), To: instant(epoch - 1)})
	r.flush()
	r.failRun(r.deliver(1)[0])
	r.flush()
	if _, err := r.m.Jobs.Delete(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if _, err := r.m.Jobs.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.mustPut(j)
	if b := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 10e9),
		To: instant(epoch - 1)}); b.ID == backfilled.ID {
		t.Error("two backfills have one id")
	}
	for range 3 {
		r.flush()
		for _, d := range r.deliver(5) {
			r.succeed(d)
		}
	}
	r.flush()
	if left := r.jobs(); len(left) != 1 || left[0].State.Next == 0 {
		t.Fatalf("the job that was put is gone: %+v", left)
	}
}

// TestAPutDoesNotRunATimeAgain that has succeeded, when it gives the job another end or another schedule.
func TestAPutDoesNotRunATimeAgain(t *testing.T) {
	for _, c := range []struct {
		before, after string
		runs          int // that of the trigger, which keeps the one-shot, is lost and comes again
	}{{"", "", 2}, {"@every 10s", "@every 10s", 8}, {"@every 10s", "@every 5s", 13}} {
		r := newRig(t, partition.Config{})
		j := carillon.Job{Name: "a", Schedule: c.before, Due: carillon.At(instant(epoch))}
		r.mustPut(j)
		ran := map[string]bool{}
		work := func(n int) {
			for range 3 {
				for _, d := range r.deliver(n) {
					if ran[d.Run.ID] {
						t.Errorf("the run of %v is handed out again", d.Run.Scheduled)
					}
					ran[d.Run.ID] = true
					r.succeed(d)
				}
				r.flush()
			}
		}
		r.bring(keyA)
		if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil { // what keeps the one-shot
			t.Fatal(err)
		}
		r.flush()
		kept := r.deliver(2)[1]
		if kept.Run.Cause != carillon.CauseTrigger {
			t.Fatal(kept)
		}
		r.succeed(r.attempts[0])
		ran[r.attempts[0].Run.ID] = true
		r.flush()
		for range 2 {
			r.advance(10 * time.Second)
			work(5)
		}
		if c.after != "" {
			r.succeed(kept)
			r.flush()
		}
		j.Schedule, j.TTL = c.after, carillon.In(time.Hour)
		r.mustPut(j)
		work(5)
		for range 5 {
			r.advance(10 * time.Second)
			work(5)
		}
		if len(ran) != c.runs {
			t.Errorf("%q: %d runs, want %d", c.after, len(ran), c.runs)
		}
	}
}

func TestNothingIsHandedOutBeforeItsPutIsDurable(t *testing.T) {
	r := newRig(t, partition.Config{})
	if _, err := r.put(carillon.Job{Name: "now"}); err != nil {
		t.Fatal(err)
	}
	r.take() // on its way
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("handed out while its put was on its way")
	}
	r.land()
	if ds := r.deliver(1); len(ds) != 1 {
		t.Fatal("not handed out once its put was durable")
	}
}

func TestSamePutKeepsPhaseAndGeneration(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 10s"}
	first := r.mustPut(j)
	r.advance(7 * time.Second)
	again := r.mustPut(j)
	if again.Changed || again.Job.Status.Generation != 1 ||
		!again.Job.Status.NextRun.Equal(first.Job.Status.NextRun) {
		t.Fatalf("got %+v", again)
	}
}

// TestTheSamePayloadOfAnotherDayIsNoChange: who puts the same bytes the next day has put the same job. It
// refers to the newer object, and what is under way goes on.
func TestTheSamePayloadOfAnotherDayIsNoChange(t *testing.T) {
	r := newRig(t, partition.Config{})
	at := func(day int32, size int64) carillon.Job {
		return carillon.Job{Name: "a", Schedule: "@every 10s",
			Data: carillon.Data{Ref: &carillon.PayloadRef{Day: day, Size: size}}}
	}
	stored := func() carillon.PayloadRef {
		t.Helper()
		r.start() // from what is stored
		r.bring(keyA)
		job, err := r.m.Records.Job(keyA)
		if err != nil {
			t.Fatal(err)
		}
		return *job.Data.Ref
	}
	r.mustPut(at(1, 7))
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	again := r.mustPut(at(2, 7))
	if again.Changed || again.Job.Status.Generation != 1 || again.Job.Data.Ref.Day != 2 {
		t.Fatalf("put again on another day: %+v", again)
	}
	if got := stored(); got.Day != 2 {
		t.Errorf("the job refers to %v", got)
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Errorf("the run that was under way: %v", v)
	}
	r.flush()
	if other := r.mustPut(at(2, 8)); !other.Changed || other.Job.Status.Generation != 2 {
		t.Errorf("put with another payload: %+v", other)
	}
}

// TestTheSamePayloadApartIsNoChange, nor is one that was apart and now comes with the job: nodes may differ in
// what they keep apart. Other bytes are a change.
func TestTheSamePayloadApartIsNoChange(t *testing.T) {
	r := newRig(t, partition.Config{})
	job := func(d carillon.Data) carillon.Job {
		return carillon.Job{Name: "a", Schedule: "@every 10s", Data: d}
	}
	data := []byte("payload")
	inline := job(carillon.Bytes(data, "text/plain"))
	apart := job(carillon.Data{ContentType: "text/plain",
		Ref: &carillon.PayloadRef{Day: 1, SHA256: sha256.Sum256(data), Size: int64(len(data))}})
	r.mustPut(inline)
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	for _, j := range []carillon.Job{apart, inline, apart} {
		put := r.mustPut(j)
		if has := put.Job.Data; put.Changed || put.Job.Status.Generation != 1 ||
			(has.Ref == nil) != (j.Data.Ref == nil) || !bytes.Equal(has.Bytes, j.Data.Bytes) {
			t.Fatalf("put again: %+v", put)
		}
		r.start() // from what is stored
		r.bring(keyA)
		if stored, err := r.m.Records.Job(keyA); err != nil || (stored.Data.Ref == nil) != (j.Data.Ref == nil) {
			t.Fatalf("%+v, %v", stored.Data, err)
		}
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Errorf("the run that was under way: %v", v)
	}
	r.flush()
	if other := r.mustPut(job(carillon.Bytes([]byte("pay1oad"), "text/plain"))); !other.Changed || other.Job.Status.Generation != 2 {
		t.Errorf("put with another payload: %+v", other)
	}
}

func TestRelativeOneShotRearms(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Due: carillon.In(10 * time.Second)}
	r.mustPut(j)
	r.advance(7 * time.Second)
	if again := r.mustPut(j); !again.Changed {
		t.Fatal("not re-armed")
	}
	r.advance(9 * time.Second)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("fired at its old time")
	}
	r.advance(time.Second)
	if ds := r.deliver(1); len(ds) != 1 {
		t.Fatal("not fired at its new time")
	}
}

func TestPutDuringOneShotRunReplacesIt(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)})
	if v := r.succeed(d); v != partition.Stale {
		t.Fatalf("old acknowledgement: %v", v)
	}
	r.advance(time.Second)
	ds := r.deliver(5)
	if len(ds) != 1 || ds[0].Run.ID == d.Run.ID {
		t.Fatalf("got %+v", ds)
	}
	r.succeed(ds[0])
	r.flush()
	if len(r.jobs()) != 0 {
		t.Fatal("not removed")
	}
}
