package partition_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/codec"
)

// TestARedrivenRunKeepsItsContentOutOfMemory redrives a run whose payload is too long to be kept in memory,
// after its job has been given another one.
func TestARedrivenRunKeepsItsContentOutOfMemory(t *testing.T) {
	r := newRig(t, partition.Config{})
	long := make([]byte, 2*partition.InlineSpec)
	j := carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes(long, ""), FailurePolicy: carillon.Drop()}
	j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(0)
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	if _, err := r.m.Trigger(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	r.flush()
	first := r.deliver(1)[0]
	r.failRun(first)
	r.flush()
	j.Data = carillon.Bytes([]byte("other"), "")
	r.mustPut(j)
	if _, err := r.m.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.start() // what is read of long records is their state
	ds := r.deliver(1)
	if len(ds) != 1 || len(ds[0].Run.Data.Bytes) != len(long) || ds[0].Run.ID != first.Run.ID || ds[0].Run.Token == first.Run.Token {
		t.Fatalf("%+v", ds)
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

// TestAPausedJobFiresNothingThatIsOnItsWay pauses a job, or skips its run, while the first attempt waits to
// be durable.
func TestAPausedJobFiresNothingThatIsOnItsWay(t *testing.T) {
	for _, skip := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
		r.advance(10 * time.Second)
		r.m.Deliver(r.now, queueQ, 1, true)
		if skip {
			s, err := r.m.Skip(r.now, keyA)
			if err != nil || s.Time.UnixNano() != r.now {
				t.Fatalf("skipped %v, %v", s.Time, err)
			}
		} else if _, err := r.m.SetPaused(r.now, keyA, carillon.PauseOptions{Paused: true}); err != nil {
			t.Fatal(err)
		}
		if ds, spare := r.granted(); len(ds) != 0 || len(spare) != 1 {
			t.Fatalf("skip %v: handed out %+v, spare %v", skip, ds, spare)
		}
		s := r.jobs()[0].State
		if want := r.now + 10e9; skip && (s.Next != want || s.Counters.Skipped != 1) || !skip && s.Next != r.now || s.Counters.Fired != 0 || s.Run.Live {
			t.Fatalf("skip %v: %+v", skip, s)
		}
	}
}

// TestABatchMayHoldAJobThatCouldNotBeginAnew has a job in a batch whose schedule is over while its last run
// goes on.
func TestABatchMayHoldAJobThatCouldNotBeginAnew(t *testing.T) {
	r := newRig(t, partition.Config{})
	old := carillon.Job{Namespace: carillon.DefaultNamespace, Name: "a", Schedule: "@every 10s", TTL: carillon.At(instant(epoch + 15e9)), Target: carillon.WorkerQueue("q")}
	r.mustPut(old)
	r.advance(10 * time.Second)
	d := r.deliver(1)[0]
	r.advance(10 * time.Second)
	other := carillon.Job{Namespace: carillon.DefaultNamespace, Name: "b", Target: carillon.WorkerQueue("q")}
	put := func(j carillon.Job) error {
		_, _, err := r.m.PutAll(r.now, []partition.PutRequest{{Job: &other}, {Job: &j}})
		r.flush()
		return err
	}
	if err := put(old); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	old.Data = carillon.Bytes([]byte("x"), "")
	if err := put(old); err != nil {
		t.Fatalf("with other data: %v", err)
	}
	before := r.jobs()
	old.Repeats = 7
	if err := put(old); err == nil {
		t.Fatal("with other times that are over")
	}
	if after := r.jobs(); len(after) != len(before) || after[0].State.Generation != before[0].State.Generation {
		t.Fatal("a refused batch has changed something")
	}
	if v := r.succeed(d); v != partition.Stale { // its content was changed
		t.Fatal(v)
	}
}

// TestABackfillWhoseZoneHasGoneEnds in the middle: runs that have begun go on, and a record says why the
// others do not.
func TestABackfillWhoseZoneHasGoneEnds(t *testing.T) {
	for _, begun := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@hourly"})
		b := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 5*3600e9), To: instant(epoch - 1)})
		if begun {
			r.flush()
		} else {
			r.land()
		}
		small := r.backfills(partition.UnfinishedBackfills)[0]
		rec, err := codec.DecodeBackfill(small.Value)
		if err != nil {
			t.Fatal(err)
		}
		rec.TimeZone = "Gone/Away"
		if err := r.shard.Apply(context.Background(), &store.Batch{MetaRecords: []store.MetaRecord{{Kind: small.Kind, Key: small.Key, Value: codec.AppendBackfill(nil, &rec)}}}); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.flush()
		left := uint64(5)
		if begun {
			left = 4
			if v := r.succeed(r.deliver(5)[0]); v != partition.Accepted {
				t.Fatal(v)
			}
			r.flush()
		}
		got, ok := r.look(b.ID)
		if !ok || got.Status != carillon.BackfillCancelled || got.Finished.IsZero() || got.Begun+left != 5 || got.Succeeded != got.Begun {
			t.Fatalf("begun %v: %+v", begun, got)
		}
		var why []store.RunRecord
		for _, h := range r.history("a") {
			if h.Reason == partition.ReasonSchedule {
				why = append(why, h)
			}
		}
		if len(why) != 1 || why[0].Skipped != left {
			t.Fatalf("begun %v: history %+v", begun, r.history("a"))
		}
		if s := r.m.Stats(); s.Backfills != 0 || r.jobs()[0].State.Backfills != 0 {
			t.Fatalf("begun %v: it goes on: %+v", begun, s)
		}
	}
}

// TestADeletedJobGivesItsTokensBack: permits of attempts that an earlier owner handed out and that have not
// been read since.
func TestADeletedJobGivesItsTokensBack(t *testing.T) {
	r, c := limited(t, 3, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", ConcurrencyKey: "k", Schedule: "@every 9h", Lease: 5 * time.Hour})
	r.mustPut(carillon.Job{Name: "b", ConcurrencyKey: "k", Due: carillon.In(0), Lease: 5 * time.Hour})
	for range 2 {
		r.bring(keyA)
		if _, err := r.m.Trigger(r.now, keyA); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	r.m.Deliver(r.now, queueQ, 5, false)
	if ds, _ := r.granted(); len(ds) != 3 {
		t.Fatalf("%d leave", len(ds))
	}
	r.start()
	if c.inForce = len(r.held); c.inForce != 3 || r.m.Stats().Resident != 0 {
		t.Fatalf("%d tokens, in memory %+v", c.inForce, r.m.Stats())
	}
	r.bring(keyA)
	if _, err := r.m.Delete(r.now, keyA); err != nil {
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
	if _, err := r.m.Delete(r.now, carillon.Key{Namespace: carillon.DefaultNamespace, Name: "b"}); err != nil {
		t.Fatal(err)
	}
	if r.flush(); c.inForce != 0 || len(r.small(store.KindLimited)) != 0 {
		t.Fatalf("%d tokens are left", c.inForce)
	}
}

// TestAnUndeliveredAttemptIsNowhere, although another change had the job written before it was handed out.
func TestAnUndeliveredAttemptIsNowhere(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Drop()})
	if _, err := r.m.Trigger(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	d := r.deliver(1)[0]
	r.land() // the number of pending runs, and with it the attempt
	tok, err := partition.ParseToken(d.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	r.m.Attempts.Undelivered(r.now, tok)
	r.m.Attempts.KeepAll()
	r.flush()
	r.start()
	if ds := r.deliver(5); len(ds) != 2 || ds[0].Run.Attempt != 1 || ds[1].Run.Attempt != 1 {
		t.Fatalf("%+v", ds)
	}
}

// TestAJobThatCameBackForOneRunCanBePut puts a deleted job again while a dead run of it is redriven.
func TestAJobThatCameBackForOneRunCanBePut(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Name: "a", Schedule: "@every 10s", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)}
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	backfilled := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 10e9), To: instant(epoch - 1)})
	r.flush()
	r.failRun(r.deliver(1)[0])
	r.flush()
	if _, err := r.m.Delete(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if _, err := r.m.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.mustPut(j)
	if b := r.mustBackfill("a", carillon.BackfillSpec{From: instant(epoch - 10e9), To: instant(epoch - 1)}); b.ID == backfilled.ID {
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

// TestRunsThatWaitForTokensDoNotFillMemory while more and more of them are triggered.
func TestRunsThatWaitForTokensDoNotFillMemory(t *testing.T) {
	r, c := limited(t, 0, partition.Config{WindowJobs: 8})
	r.mustPut(carillon.Job{Name: "a", ConcurrencyKey: "k", Schedule: "@yearly"})
	for range 40 {
		r.bring(keyA)
		if _, err := r.m.Trigger(r.now, keyA); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	r.m.Deliver(r.now, queueQ, 100, false)
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
		r.m.Deliver(r.now, queueQ, 100, false)
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
		if _, err := r.m.Trigger(r.now, keyA); err != nil { // what keeps the one-shot
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
