package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

func keyOf(name string) carillon.Key {
	return carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
}

func (r *rig) pause(name string, paused bool) {
	r.bring(keyOf(name))
	if _, err := r.m.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
		r.t.Fatal(err)
	}
	r.flush()
}

func (r *rig) trigger(name string) carillon.Run {
	r.bring(keyOf(name))
	run, err := r.m.Trigger(r.now, keyOf(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func queueNamed(address string) partition.Queue {
	return partition.Queue{Namespace: carillon.DefaultNamespace, Kind: "worker", Address: address}
}

// deliverFrom reads back what is parked under a queue and hands out its due runs.
func (r *rig) deliverFrom(q partition.Queue, n int) []partition.Delivery {
	r.step()
	if sq, ok := r.m.Window.WantStaged(q, 100); ok {
		records, err := r.shard.Staged(context.Background(), sq)
		if err != nil {
			r.t.Fatal(err)
		}
		r.m.LoadStaged(q, sq, records, r.now)
		r.step()
	}
	ds, _ := r.m.Deliver(r.now, q, n, false)
	return ds
}

func TestAPausedJobWhoseLifeEndsWaitsForItsTriggeredRuns(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", TTL: carillon.In(2 * time.Hour), Lease: 24 * time.Hour, Paused: true})
	r.trigger("a")
	r.flush()
	d := r.deliver(1)[0]
	r.now += int64(3 * time.Hour)
	r.flush()
	if len(r.jobs()) != 1 {
		t.Fatal("gone before its run ended")
	}
	r.succeed(d)
	r.flush()
	r.advance(time.Hour)
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
}

func TestFarJobsOfAHigherClassDoNotKeepOthersOut(t *testing.T) {
	const window = 64
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range 10 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("far/%d", i), Priority: carillon.PriorityCritical, Due: carillon.In(50 * time.Minute)})
	}
	for i := range 3 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("near/%d", i), Due: carillon.In(time.Minute + time.Duration(i)*time.Second)})
	}
	r.start()
	for i := range 10 * window { // distant ones, put while the frontier of their priority is far ahead
		r.mustPut(carillon.Job{Name: fmt.Sprintf("more/%d", i), Priority: carillon.PriorityCritical, Due: carillon.In(40 * time.Minute)})
	}
	r.mustPut(carillon.Job{Name: "new", Priority: carillon.PriorityLow, Due: carillon.In(time.Minute)})
	done := 0
	for range 10 * 60 {
		r.advance(time.Second)
		for _, d := range r.deliver(100) {
			if late := r.now - d.Run.Due.UnixNano(); late > int64(2*time.Second) {
				t.Fatalf("%s is late by %v", d.Run.Job, time.Duration(late))
			}
			r.succeed(d)
			done++
		}
		r.flush()
		if n := r.m.Stats().Resident; n > 2*window {
			t.Fatalf("%d in memory", n)
		}
	}
	if done != 3*window+1 {
		t.Fatalf("%d of %d ran", done, 3*window+1)
	}
}

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

func TestATriggeredRunFollowsItsJobToAnotherQueueOnceThePutIsDurable(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("q")})
	r.trigger("a")
	r.flush()
	if _, err := r.put(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("other")}); err != nil {
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

func TestTheQueueThatHoldsAnAttemptIsToldToStop(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("q")})
	r.advance(time.Hour)
	d := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h", Target: carillon.WorkerQueue("other")})
	if len(r.cancels) != 1 || r.cancels[0].Token != d.Run.Token || r.cancels[0].Queue != queueQ {
		t.Fatalf("cancels %+v", r.cancels)
	}
}

func TestARedriveLeavesTheHistoryInTheBatchThatBringsItBack(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second}.WithMaxRetries(0)})
	d := r.deliver(1)[0]
	r.failRun(d)
	r.flush()
	dead := r.history("a")[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
	r.bring(keyOf("a"))
	if _, err := r.m.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Redrive(r.now, dead); err != nil {
		t.Fatal(err)
	}
	for {
		b, seq := r.m.Batch()
		if b == nil {
			t.Fatal("not redriven")
		}
		if (len(b.Redrive) > 0) != (len(b.Puts) > 0) {
			t.Fatalf("a crash after batch %d would lose the run: %+v", seq, b)
		}
		if len(b.Redrive) > 0 {
			return
		}
	}
}

func TestARepeatedResultWaitsOnlyForTheBatchThatHoldsIt(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	d := r.deliver(1)[0]
	r.succeed(d)
	r.take() // on its way
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
	after := r.m.After()
	if after == 0 {
		t.Fatal("accepted before it is durable")
	}
	r.land()
	if after > r.durable {
		t.Fatalf("waits for batch %d, which nothing fills", after)
	}
}

func TestAMissingJobDoesNotHideWhatElseACallWaitsFor(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
	r.bring(keyOf("a"))
	r.m.Begin()
	if _, err := r.m.Delete(r.now, keyOf("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.m.Delete(r.now, keyOf("b")); err == nil {
		t.Fatal("b does not exist")
	}
	if r.m.After() <= r.durable {
		t.Fatal("the delete would be acknowledged before it is durable")
	}
}

// TestLongRunsWithLargePayloadsDoNotKeepOthersOut has runs that go on for hours and whose payloads fill the
// memory for specs.
func TestLongRunsWithLargePayloadsDoNotKeepOthersOut(t *testing.T) {
	r := newRig(t, partition.Config{WindowJobs: 16, WindowBytes: 64 << 10})
	big := make([]byte, 16<<10)
	r.mustPut(carillon.Job{Name: "other", Data: carillon.Bytes(big, ""), Due: carillon.In(time.Minute)})
	for i := range 20 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("small/%d", i), Due: carillon.In(time.Minute)})
	}
	for i := range 10 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("long/%d", i), Data: carillon.Bytes(big, ""), Lease: 24 * time.Hour})
	}
	var long []partition.Delivery
	for range 10 {
		long = append(long, r.deliver(10)...)
		r.advance(2 * time.Second)
	}
	if len(long) != 10 {
		t.Fatalf("%d of 10 begun", len(long))
	}
	r.advance(2 * time.Minute)
	n := 0
	for range 10 {
		for _, d := range r.deliver(100) {
			r.succeed(d)
			n++
		}
		r.flush()
	}
	if n != 21 {
		t.Fatalf("%d of 21 run beside them", n)
	}
	if b := r.m.Stats().Bytes; b > 128<<10 {
		t.Fatalf("%d bytes of specs in memory", b)
	}
	for _, d := range long {
		if v := r.succeed(d); v != partition.Accepted {
			t.Fatalf("%s: %v; cancelled: %+v", d.Run.Job, v, r.cancels)
		}
	}
}

func TestABeatNeedsNoSpec(t *testing.T) {
	r := newRig(t, partition.Config{WindowBytes: 16 << 10})
	for i := range 2 {
		r.mustPut(carillon.Job{Name: fmt.Sprint(i), Data: carillon.Bytes(make([]byte, 16<<10), "")})
	}
	first := r.deliver(1)[0]
	r.advance(time.Second)
	r.step() // the second one's spec takes the place of the first one's
	tok, err := partition.ParseToken(first.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
}

func TestNothingIsKeptOfAQueueThatIsEmpty(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range 30 {
		q := fmt.Sprintf("q%d", i)
		r.mustPut(carillon.Job{Name: q, Target: carillon.WorkerQueue(q)})
		r.advance(2 * time.Second)
		r.m.Window.Stage(queueNamed(q), r.now, 10)
		r.flush()
		r.m.Window.AppendWaiting(nil, r.now)
		ds := r.deliverFrom(queueNamed(q), 1)
		if len(ds) != 1 {
			t.Fatalf("%d delivered", len(ds))
		}
		r.m.Window.AppendWaiting(nil, r.now)
		r.succeed(ds[0])
		r.flush()
		r.m.Window.AppendWaiting(nil, r.now)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Fatalf("left in memory: %+v", s)
	}
	if small, err := r.shard.MetaRecords(context.Background(), store.MetaQuery{Kind: store.KindParked, Limit: 100}); err != nil || len(small) > 0 {
		t.Fatalf("left in the store: %v %v", small, err)
	}
}

func TestAJobThatEndsWhileItIsSetAsideIsRemoved(t *testing.T) {
	r := newRig(t, partition.Config{})
	due := carillon.At(time.Unix(0, epoch))
	if _, err := r.put(carillon.Job{Name: "a", Schedule: "@every 10s", Due: due, TTL: carillon.In(5 * time.Second)}); err != nil {
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

// pauseLater pauses or resumes without waiting for that to be durable.
func (r *rig) pauseLater(name string, paused bool) {
	r.bring(keyOf(name))
	if _, err := r.m.SetPaused(r.now, keyOf(name), carillon.PauseOptions{Paused: paused}); err != nil {
		r.t.Fatal(err)
	}
	r.m.Tick(r.now)
}

// TestSpreadMovesWhenATimeCounts checks a time that has come but whose jitter has not passed. It is neither
// skipped because of an overlap that has ended nor lost to a pause that has ended.
func TestSpreadMovesWhenATimeCounts(t *testing.T) {
	tried := 0
	for i := range 40 {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: fmt.Sprint(i), Schedule: "@every 1h", Jitter: time.Hour, Overlap: carillon.OverlapSkip})
		r.advance(2*time.Hour - 1)
		first := r.deliver(1)
		if len(first) != 1 || first[0].Run.Due.UnixNano() > epoch+int64(2*time.Hour) {
			continue
		}
		r.advance(2) // the second time has come
		if i%2 == 0 {
			r.pause(fmt.Sprint(i), true)
			r.pause(fmt.Sprint(i), false)
		}
		r.succeed(first[0])
		r.flush()
		if len(r.deliver(1)) != 0 {
			continue // with jitter its run is due, too
		}
		tried++
		r.advance(time.Hour)
		if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(2*time.Hour) {
			t.Fatalf("%d: the second time does not run: %+v %+v", i, ds, r.history(fmt.Sprint(i)))
		}
	}
	if tried < 20 {
		t.Fatalf("only %d of 40 tried", tried)
	}
}

func TestHistoryOfAPartitionIsBounded(t *testing.T) {
	const most = 500
	r := newRig(t, partition.Config{HistoryMost: most, HistoryExpires: 100})
	for i := range 2000 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("j%d", i)})
		r.succeed(r.deliver(1)[0])
		r.flush()
		if i%1000 == 0 {
			r.m.History.Sweep(r.now)
		}
	}
	kept := 0
	for i := range 2000 {
		kept += len(r.history(fmt.Sprintf("j%d", i)))
	}
	if kept < most || kept > most+100 {
		t.Fatalf("%d finished runs kept, at most %d are wanted", kept, most)
	}
}

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

func TestAnOldTokenIsStaleAfterARedrive(t *testing.T) {
	for _, keep := range []bool{true, false} {
		r := newRig(t, partition.Config{})
		never := carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second, OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(0)
		j := carillon.Job{Name: "a", FailurePolicy: never, Lease: 5 * time.Second}
		if keep {
			j.Schedule = "@every 1h"
		}
		r.mustPut(j)
		r.advance(time.Hour)
		first := r.deliver(1)
		if !keep {
			r.advance(10 * time.Second)
		}
		if len(first) != 1 {
			t.Fatalf("%d delivered", len(first))
		}
		r.advance(10 * time.Second) // the lease is over, and with it the run
		r.bring(keyOf("a"))
		if _, err := r.m.Redrive(r.now, r.history("a")[0]); err != nil {
			t.Fatal(err)
		}
		r.flush()
		again := r.deliver(1)
		if len(again) != 1 || again[0].Run.Token == first[0].Run.Token {
			t.Fatalf("the same token again: %+v", again)
		}
		if v := r.succeed(first[0]); v != partition.Stale {
			t.Fatalf("result of the attempt before: %v", v)
		}
		if v := r.succeed(again[0]); v != partition.Accepted {
			t.Fatalf("result: %v", v)
		}
		r.flush()
	}
}
