package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

var queueX = delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "dapr", Address: "app/x"}

var queueCat = delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "dapr", Address: "actor/cat"}

// daprName is the name of a job of the app x.
func daprName(name string) string { return "dapr/app/x/" + name }

// daprJob returns a job as Dapr's users put it: with Dapr's failure policy unless it has one.
func daprJob(j carillon.Job) carillon.Job {
	j.Name = daprName(j.Name)
	j.Target = carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x", ConcurrencyKey: "k"}}
	if j.FailurePolicy.Kind == carillon.PolicyDefault {
		j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(3)
	}
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDrop
	if j.Recurring() {
		j.Calendars.DST, j.Misfire.Rule, j.Misfire.Limit = carillon.DSTLiteral, carillon.MisfireAll, carillon.MaxCatchUp
	}
	j.History.Runs = 10_000
	return j
}

// send hands out at most n due runs of the app.
func (r *rig) send(n int) []delivery.Delivery {
	r.step()
	ds := r.deliverFrom(queueX, n)
	for _, d := range ds {
		if r.now < d.Run.Due.UnixNano() || r.now < d.Run.Scheduled.UnixNano() {
			r.t.Fatalf("I1: attempt %d of %s is early", d.Run.Attempt, d.Run.Job)
		}
	}
	return ds
}

// sendOne hands out the one run that is due.
func (r *rig) sendOne() delivery.Delivery {
	r.t.Helper()
	ds := r.send(10)
	if len(ds) != 1 {
		r.t.Fatalf("%d are due, want 1", len(ds))
	}
	return ds[0]
}

// hangUp ends the streams that have the runs.
func (r *rig) hangUp(ds ...delivery.Delivery) {
	for _, d := range ds {
		tok, err := message.ParseToken(d.Run.Token, r.store.Meta().MACKey)
		if err != nil {
			r.t.Fatal(err)
		}
		r.m.Attempts.Undelivered(r.now, tok)
	}
}

// TestRetriesOfDaprHangOnTheScheduledTime, however late attempts begin and end.
func TestRetriesOfDaprHangOnTheScheduledTime(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(daprJob(carillon.Job{Name: "a", Due: carillon.In(10 * time.Second),
		FailurePolicy: carillon.Constant(5 * time.Second).WithMaxRetries(4)}))
	r.advance(10 * time.Second)
	for k, takes := range []time.Duration{time.Second, 0, 17 * time.Second, 0, 0} {
		d := r.sendOne()
		if want := epoch + int64(10*time.Second) + int64(k)*int64(5*time.Second); d.Run.Due.UnixNano() != want ||
			d.Run.Attempt != k+1 {
			t.Fatalf("attempt %d is due at %v, want %v", d.Run.Attempt, d.Run.Due, toTime(want))
		}
		if d.Target.Dapr == nil || d.Queue != queueX {
			t.Fatalf("delivery %+v", d)
		}
		if k == 1 {
			r.hangUp(d) // does not count, and does not delay later ones
			d = r.sendOne()
		}
		r.advance(takes)
		r.failRun(d)
		r.flush()
		if k < 2 {
			if early := r.send(1); len(early) != 0 {
				t.Fatalf("attempt %d is early", early[0].Run.Attempt)
			}
			r.advance(time.Duration(epoch + int64(10*time.Second) + int64(k+1)*int64(5*time.Second) - r.now))
		}
	}
	if h := r.history(daprName("a")); len(h) != 1 || h[0].Status != carillon.RunFailed || h[0].Attempt != 5 ||
		len(r.jobs()) != 0 {
		t.Fatalf("history %+v", h)
	}
}

func toTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// TestNothingButTheTimeoutEndsAnAttemptOfDapr while the stream lives.
func TestNothingButTheTimeoutEndsAnAttemptOfDapr(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(daprJob(carillon.Job{Name: "a", Due: carillon.In(0)}))
	d := r.sendOne()
	r.advance(carillon.DefaultWorkerTimeout - 1)
	if len(r.cancels) != 0 || len(r.send(1)) != 0 {
		t.Fatalf("it has been ended: %+v", r.cancels)
	}
	if s := r.jobs()[0].State; s.Phase != carillon.PhaseRunning {
		t.Fatalf("stored as %v", s.Phase)
	}
	r.advance(1)
	if len(r.cancels) != 1 || r.cancels[0].Queue != queueX || r.cancels[0].Token != d.Run.Token {
		t.Fatalf("cancels %+v", r.cancels)
	}
	if again := r.sendOne(); again.Run.Attempt != 2 || !again.Run.Due.Equal(d.Run.Due.Add(time.Second)) {
		t.Fatalf("%+v", again.Run)
	}
}

// TestAttemptsOfDaprGoWithTheNode: the next owner delivers them at once, whether or not their specs fit into
// its memory, and the old attempts are stale.
func TestAttemptsOfDaprGoWithTheNode(t *testing.T) {
	for name, leave := range map[string]func(r *rig){
		"crash": func(*rig) {},
		"stop":  func(r *rig) { r.m.Attempts.KeepAll(); r.flush() },
	} {
		for _, size := range []int{1, 2 * partition.InlineSpec} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				r := newRig(t, partition.Config{WindowJobs: 16})
				const jobs = 100
				for i := range jobs {
					r.mustPut(daprJob(carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(time.Second),
						Data: carillon.Bytes(make([]byte, size), "")}))
				}
				r.advance(time.Second)
				var old []delivery.Delivery
				for len(old) < jobs {
					ds := r.send(jobs)
					for _, d := range ds[:len(ds)/2] { // second attempts as well
						r.failRun(d)
					}
					old = append(old, ds[len(ds)/2:]...)
					r.advance(time.Second)
				}
				r.advance(time.Minute) // all are durable
				leave(r)
				r.start()
				if v := r.succeed(old[0]); v != partition.Stale {
					t.Fatalf("a result of another life: %v", v)
				}
				var again []delivery.Delivery
				for range jobs {
					again = append(again, r.send(jobs)...)
					r.flush()
				}
				wantAgain(t, old, again)
				for _, d := range append(old, again...) {
					want := partition.Accepted
					if slices.ContainsFunc(old, func(o delivery.Delivery) bool { return o.Run.Token == d.Run.Token }) {
						want = partition.Stale
					}
					if v := r.succeed(d); v != want {
						t.Fatalf("verdict %v of attempt %d, want %v", v, d.Run.Attempt, want)
					}
				}
				r.flush()
				if left := r.jobs(); len(left) != 0 {
					t.Fatalf("%d are left", len(left))
				}
			})
		}
	}
}

// wantAgain checks that the same attempts are handed out with other tokens.
func wantAgain(t *testing.T, old, again []delivery.Delivery) {
	t.Helper()
	attempts, tokens := map[string]int{}, map[string]bool{}
	for _, d := range old {
		attempts[d.Run.ID], tokens[d.Run.Token] = d.Run.Attempt, true
	}
	for _, d := range again {
		if attempts[d.Run.ID] != d.Run.Attempt || tokens[d.Run.Token] {
			t.Fatalf("attempt %d of %s comes again as %d", attempts[d.Run.ID], d.Run.Job, d.Run.Attempt)
		}
		delete(attempts, d.Run.ID)
	}
	if len(attempts) != 0 {
		t.Fatalf("%d of %d have not come again", len(attempts), len(old))
	}
}

// TestAStreamThatEndsLeavesNoTrace of its attempts, however many: everything is as if they had not been
// handed out.
func TestAStreamThatEndsLeavesNoTrace(t *testing.T) {
	r := newRig(t, partition.Config{})
	const jobs = 10_000
	for i := range jobs {
		if _, err := r.put(daprJob(carillon.Job{Name: fmt.Sprint(i), Schedule: "@every 1h",
			Due: carillon.In(0)})); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	for _, after := range []time.Duration{0, 10 * time.Minute} { // young attempts, and durable ones
		r.now += int64(after)
		ds := r.sendAll(jobs)
		r.advance(after)
		r.hangUp(ds...)
		r.hangUp(ds[:10]...) // reported twice
		if r.take(); len(r.batches) != 0 {
			t.Fatalf("%d records are written: those that wait for it are not delivered at once",
				len(r.batches[0].Puts))
		}
		if s := r.m.Stats(); s.InFlight != 0 {
			t.Fatalf("%d are in force", s.InFlight)
		}
		if v := r.succeed(ds[0]); v != partition.Stale {
			t.Fatalf("a result of a stream that has ended: %v", v)
		}
		for _, name := range []string{"0", "777"} {
			j, err := r.m.Records.Job(keyOf(daprName(name)))
			if c := j.Status.Counters; err != nil || c != (carillon.Counters{}) || j.Status.Current == nil ||
				j.Status.Current.Attempt != 0 ||
				!j.Status.Current.Started.IsZero() {
				t.Fatalf("%+v %v", j.Status, err)
			}
		}
	}
	for _, d := range r.sendAll(jobs) {
		if d.Run.Attempt != 1 {
			t.Fatalf("attempt %d", d.Run.Attempt)
		}
		r.succeed(d)
	}
	r.flush()
	for _, rec := range r.jobs() {
		if c := rec.State.Counters; c.Fired != 1 || c.Succeeded != 1 || c.Failed+c.Retried != 0 || c.Late != 1 {
			t.Fatalf("%s counts %+v", rec.Name, c)
		}
	}
}

// sendAll hands out n runs, which must be due.
func (r *rig) sendAll(n int) (out []delivery.Delivery) {
	r.t.Helper()
	for len(out) < n {
		r.flush()
		ds := r.send(n - len(out))
		if len(ds) == 0 {
			r.t.Fatalf("%d of %d are due", len(out), n)
		}
		out = append(out, ds...)
	}
	return out
}

// TestACountThatWasLostIsNotTakenBack: an attempt of a pending run is in the store, but its job's count of it
// is not.
func TestACountThatWasLostIsNotTakenBack(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(daprJob(carillon.Job{Name: "a", Schedule: "@yearly"}))
	r.trigger(daprName("a"))
	r.flush()
	for range 3 {
		r.sendOne()
		r.advance(5 * time.Second)
		r.own()
		r.bring(keyOf(daprName("a")))
		r.flush()
	}
	r.succeed(r.sendOne())
	r.flush()
	if c := r.jobs()[0].State.Counters; c.Fired != 1 || c.Succeeded != 1 || c.Late > 1 || c.Retried != 0 {
		t.Fatalf("counted %+v", c)
	}
}

// TestALimitOutlivesStreams: an attempt that is withdrawn returns its permit, by the node that handed it out
// or the next one.
func TestALimitOutlivesStreams(t *testing.T) {
	r, c := limited(t, 1, partition.Config{})
	for _, n := range []string{"a", "b"} {
		r.mustPut(daprJob(carillon.Job{Name: n, Due: carillon.In(0), ConcurrencyKey: "k"}))
	}
	for life := range 4 {
		r.step()
		r.m.Deliver(nil, r.now, queueX, 2, false, nil)
		ds, _ := r.granted()
		if len(ds) != 1 || ds[0].Run.Attempt != 1 || c.inForce != 1 || len(r.small(store.KindLimited)) != 1 {
			t.Fatalf("life %d: %d are handed out, %d tokens", life, len(ds), c.inForce)
		}
		if life%2 == 0 {
			r.own() // with the one permit, which it returns
		} else {
			r.hangUp(ds[0])
		}
		if r.flush(); c.inForce != 0 || len(r.small(store.KindLimited)) != 0 {
			t.Fatalf("life %d: %d tokens are left, the store has %v", life, c.inForce, r.small(store.KindLimited))
		}
		r.own() // with what the store has now
		if len(r.held) != 0 {
			t.Fatalf("life %d: the store has %v", life, r.held)
		}
	}
}

// TestDaprMakesUpForEveryTime, in order and one at a time, whatever delayed it.
func TestDaprMakesUpForEveryTime(t *testing.T) {
	want := []int{10, 20, 30, 40, 50, 60}
	for name, wait := range map[string]func(r *rig){
		"the node was down": func(r *rig) { r.now += int64(68 * time.Second); r.start(); r.flush() },
		"nobody was connected": func(r *rig) {
			r.advance(12 * time.Second)
			r.m.Window.Stage(queueX, r.now, 10)
			r.advance(56 * time.Second)
		},
		"the one before went on": nil,
		"nobody, and down": func(r *rig) {
			r.advance(12 * time.Second)
			r.m.Window.Stage(queueX, r.now, 10)
			r.advance(0)
			r.now += int64(56e9)
			r.start()
		},
		"its stream was gone in it": func(r *rig) {
			r.advance(12 * time.Second)
			r.send(1)
			r.now += int64(56 * time.Second)
			r.start()
		},
	} {
		for what, c := range map[string]struct {
			job  carillon.Job
			want []int
		}{
			"for ever":  {carillon.Job{}, want},
			"repeats":   {carillon.Job{Repeats: 4}, want[:4]},
			"ttl":       {carillon.Job{TTL: carillon.In(30 * time.Second)}, want[:3]}, // inclusive
			"short ttl": {carillon.Job{TTL: carillon.In(29 * time.Second)}, want[:2]},
			"limit":     {carillon.Job{Repeats: 1, TTL: carillon.In(10 * time.Second)}, want[:1]},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				r := newRig(t, partition.Config{})
				j := c.job
				j.Name, j.Schedule = "a", "@every 10s"
				r.mustPut(daprJob(j))
				if wait != nil {
					wait(r)
				}
				var got []int
				if wait == nil {
					r.advance(12 * time.Second)
					d := r.sendOne()
					r.advance(56 * time.Second)
					r.succeed(d)
					r.flush()
					got = append(got, second(d))
				}
				if got = append(got, r.workOffDapr()...); !slices.Equal(got, c.want) {
					t.Errorf("it ran %v, want %v", got, c.want)
				}
				if n := r.passedOver(daprName("a")); len(n) != 0 {
					t.Errorf("passed over: %v", n)
				}
				if left := len(r.jobs()); (left == 0) != (what != "for ever") {
					t.Errorf("%d jobs are left", left)
				}
			})
		}
	}
}

// workOffDapr delivers one run at a time. Each succeeds at once.
func (r *rig) workOffDapr() (got []int) {
	r.t.Helper()
	for {
		r.flush()
		ds := r.send(10)
		if len(ds) == 0 {
			return got
		}
		if len(ds) > 1 {
			r.t.Fatalf("%d at a time", len(ds))
		}
		got = append(got, second(ds[0]))
		r.succeed(ds[0])
	}
}

// TestRetriesOfDaprOutliveTheJob: the end of life bounds only the scheduled times.
func TestRetriesOfDaprOutliveTheJob(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(daprJob(carillon.Job{Name: "a", Schedule: "@every 10s", TTL: carillon.In(11 * time.Second)}))
	r.advance(10 * time.Second)
	for range 3 {
		r.failRun(r.sendOne())
		r.advance(time.Second)
	}
	r.succeed(r.sendOne())
	if r.flush(); len(r.jobs()) != 0 || r.history(daprName("a"))[0].Status != carillon.RunSucceeded {
		t.Fatalf("left %+v, history %+v", r.jobs(), r.history(daprName("a")))
	}
}

// TestADueTimeInThePastIsMadeUpFor, and so are all times of the schedule since.
func TestADueTimeInThePastIsMadeUpFor(t *testing.T) {
	for name, c := range map[string]struct {
		job  carillon.Job
		want []int
	}{
		"interval":       {carillon.Job{Schedule: "@every 10s"}, []int{-35, -25, -15, -5}},
		"cron beside it": {carillon.Job{Schedule: "*/10 * * * * *"}, []int{-35, -30, -20, -10, 0}},
		"repeats":        {carillon.Job{Schedule: "*/10 * * * * *", Repeats: 2}, []int{-35, -30}},
		"a life now over": {carillon.Job{Schedule: "*/10 * * * * *", TTL: carillon.In(15 * time.Second)},
			[]int{-35, -30, -20}},
		"once": {carillon.Job{}, []int{-35}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			c.job.Name, c.job.Due = "a", carillon.At(toTime(epoch-int64(35*time.Second)))
			r.mustPut(daprJob(c.job))
			if got := r.workOffDapr(); !slices.Equal(got, c.want) {
				t.Errorf("it ran %v, want %v", got, c.want)
			}
			if n := r.passedOver(daprName("a")); len(n) != 0 {
				t.Errorf("passed over: %v", n)
			}
		})
	}
}
