package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// awaiting is a target whose runs a consumer completes; queueAwaiting is its queue.
var (
	awaiting = carillon.Target{Kafka: &carillon.KafkaTarget{Cluster: "c", Topic: "t", AwaitCompletion: true}}

	queueAwaiting = delivery.Queue{Namespace: carillon.DefaultNamespace, Kind: "kafka", Address: "c/t"}
)

// TestAnAttemptThatIsAwaitedIsDurableFirst: its consumer answers by its token, whoever owns the partition then.
func TestAnAttemptThatIsAwaitedIsDurableFirst(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Target: awaiting, FailurePolicy: carillon.Constant(time.Minute).WithMaxRetries(1)})
	r.step()
	if ds, _ := r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil); len(ds) != 0 {
		t.Fatal("it leaves before it is durable")
	}
	ds, _ := r.granted()
	if len(ds) != 1 || ds[0].Timeout != carillon.DefaultAwaitTimeout || !ds[0].Durable {
		t.Fatalf("%+v", ds)
	}
	r.kill(time.Second)
	r.start()
	if v := r.reportAs(ds[0].Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
		t.Errorf("the acknowledgement: %v", v)
	}
	progress := carillon.Result{Outcome: carillon.OutcomeProgress, Progress: carillon.Progress{Percent: 40}}
	if v := r.reportAs(ds[0].Run.Token, &delivery.Report{Result: progress}); v != partition.Accepted {
		t.Errorf("its progress: %v", v)
	}
	done := delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeSuccess}}
	if v := r.reportAs(ds[0].Run.Token, &done); v != partition.Accepted {
		t.Errorf("the completion: %v", v)
	}
	r.flush()
	if v := r.reportAs(ds[0].Run.Token, &delivery.Report{Async: true}); v == partition.Accepted {
		t.Error("an acknowledgement after the completion counts")
	}
}

// TestAnAttemptThatNobodyCompletes fails at its timeout, and its token is stale then.
func TestAnAttemptThatNobodyCompletes(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Target: awaiting, Timeout: time.Minute,
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
	r.step()
	r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
	ds, _ := r.granted()
	if v := r.reportAs(ds[0].Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
		t.Fatal(v)
	}
	r.flush()
	r.advance(time.Minute)
	if j := r.jobs()[0]; j.State.Phase != carillon.PhaseRetrying || j.State.Counters.Failed != 1 {
		t.Errorf("at its timeout it is %v", j.State.Phase)
	}
	r.advance(time.Second)
	r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
	again, _ := r.granted()
	if len(again) != 1 || again[0].Run.ID != ds[0].Run.ID || again[0].Run.Attempt != 2 {
		t.Fatalf("%+v", again)
	}
	done := delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeSuccess}}
	if v := r.reportAs(ds[0].Run.Token, &done); v != partition.Stale {
		t.Errorf("the first attempt's completion: %v", v)
	}
	if v := r.reportAs(again[0].Run.Token, &done); v != partition.Accepted {
		t.Errorf("the second attempt's: %v", v)
	}
}

// TestAnAttemptThatIsAwaitedWaitsForTheStore, although it is critical.
func TestAnAttemptThatIsAwaitedWaitsForTheStore(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Priority: carillon.PriorityCritical, Target: awaiting,
		Due: carillon.At(time.Unix(0, r.now).Add(time.Second))})
	r.m.OnlyCritical(true, true, r.now)
	r.advance(time.Second)
	r.step()
	if w := r.m.Window.AppendWaiting(nil, r.now); len(w) > 0 {
		t.Errorf("it would leave: %+v", w)
	}
	r.m.OnlyCritical(false, false, r.now)
	r.flush()
	r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
	if ds, _ := r.granted(); len(ds) != 1 {
		t.Error("it does not leave when the store is back")
	}
}

// TestAnAcknowledgementThatIsMissing fails the attempt, unless a consumer has proved that it has the run.
func TestAnAcknowledgementThatIsMissing(t *testing.T) {
	r := newRig(t, partition.Config{})
	lost := &delivery.Report{Async: true, Result: carillon.Result{Message: "the connection broke"}}
	for name, progress := range map[string]bool{"nobody": false, "somebody": true} {
		r.mustPut(carillon.Job{Name: name, Target: awaiting, FailurePolicy: carillon.Constant(time.Minute).WithMaxRetries(1)})
		r.step()
		r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
		ds, _ := r.granted()
		if len(ds) != 1 {
			t.Fatalf("%+v", ds)
		}
		at := carillon.Result{Outcome: carillon.OutcomeProgress}
		if progress && r.report(ds[0], at) != partition.Accepted {
			t.Fatal("the progress is refused")
		}
		if v := r.reportAs(ds[0].Run.Token, lost); v != partition.Accepted {
			t.Fatal(v)
		}
		if v := r.succeed(ds[0]); (v == partition.Accepted) != progress {
			t.Errorf("%s has reported: its completion is %v", name, v)
		}
		r.flush()
	}
	if runs := r.history("somebody"); len(runs) != 1 || runs[0].Attempt != 1 || len(runs[0].Errors) != 0 {
		t.Errorf("%+v", runs)
	}
	if j := r.jobs()[0]; j.Name != "nobody" || j.State.Run.Errors[0].Message != lost.Message {
		t.Errorf("%s: %+v", j.Name, j.State.Run.Errors)
	}
}

// TestAnAttemptThatMayNotHaveBeenSent is sent once more, under the same token, soon after its node was killed, and
// again if that one is killed as well; unless the store knows that the broker has it, or its consumer has said so.
func TestAnAttemptThatMayNotHaveBeenSent(t *testing.T) {
	done := &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeSuccess}}
	for name, c := range map[string]struct {
		left   bool             // the message may have left
		report *delivery.Report // before the node was killed, or after it if late is set
		late   bool
		again  bool
	}{
		"it was written":             {again: true},
		"its message was on its way": {left: true, again: true},
		"it was acknowledged":        {left: true, report: &delivery.Report{Async: true}},
		"its consumer has reported":  {left: true, report: &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeProgress}}},
		"it is acknowledged late":    {left: true, report: &delivery.Report{Async: true}, late: true},
		"its consumer reports late": {left: true, late: true,
			report: &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeProgress}}},
		"its consumer completes it": {left: true, report: done, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a", Target: awaiting, FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
			r.step()
			r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
			ds, _ := r.granted()
			token := ds[0].Run.Token
			tell := func(late bool) {
				if c.report == nil || c.late != late {
					return
				}
				if v := r.reportAs(token, c.report); v != partition.Accepted {
					t.Fatalf("the report: %v", v)
				}
				r.flush()
			}
			tell(false)
			for range 2 {
				r.kill(time.Second)
				tell(true)
				r.advance(partition.TakeoverGrace + 10*time.Second)
				r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
				again, _ := r.granted()
				if (len(again) == 1) != c.again {
					t.Fatalf("after its node was killed these leave: %+v", again)
				}
				if c.again && (again[0].Run.Token != token || again[0].Run.Attempt != 1) {
					t.Errorf("it is sent as another attempt: %+v", again[0].Run)
				}
			}
			if want := partition.Accepted; c.report != done && r.reportAs(token, done) != want {
				t.Error("its completion is not accepted")
			}
			r.flush()
			if runs := r.history("a"); len(runs) != 1 || runs[0].Attempt != 1 || runs[0].Status != carillon.RunSucceeded {
				t.Errorf("%+v", runs)
			}
		})
	}
}

// TestAnAttemptInDoubtOfABrokerEnds when its consumer completes it, while it waits to be sent once more; and one
// that no broker acknowledges at its timeout.
func TestAnAttemptInDoubtOfABrokerEnds(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Target: awaiting, FailurePolicy: carillon.Constant(time.Minute).WithMaxRetries(1)})
	r.step()
	r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
	ds, _ := r.granted()
	r.kill(time.Second)
	r.advance(time.Minute) // it waits
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Errorf("the completion: %v", v)
	}
	r.mustPut(carillon.Job{Name: "b", Target: awaiting, Timeout: time.Minute,
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
	r.step()
	r.m.Deliver(nil, r.now, queueAwaiting, 1, false, nil)
	if ds, _ := r.granted(); len(ds) != 1 {
		t.Fatalf("%+v", ds)
	}
	r.advance(2 * time.Minute) // nobody says that the broker has it
	if j := r.jobs()[0]; j.State.Counters.Failed != 1 {
		t.Errorf("at its timeout it is %v", j.State.Phase)
	}
}

// TestAwaitedRunsKeepNobodyOut, however many they are: others are read and leave, also those that were due
// before a new owner came, and each awaited run can still be completed, fail, be cancelled and time out.
func TestAwaitedRunsKeepNobodyOut(t *testing.T) {
	const runs, window = 200, 16 << 10
	r := newRig(t, partition.Config{WindowBytes: window})
	var out []delivery.Delivery
	send := func(n int) {
		t.Helper()
		before := len(out)
		for range 100 {
			if len(out) == before+n {
				return
			}
			r.step()
			r.m.Deliver(nil, r.now, queueAwaiting, 8, false, nil)
			r.flush()
			ds, _ := r.granted()
			for _, d := range ds {
				if v := r.reportAs(d.Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
					t.Fatalf("the acknowledgement of %s: %v", d.Run.Job, v)
				}
				out = append(out, d)
			}
			r.flush()
		}
		t.Fatalf("%d of %d are sent", len(out)-before, n)
	}
	bystander := func(name string) {
		t.Helper()
		r.mustPut(carillon.Job{Name: name, Data: carillon.Bytes(make([]byte, 600), ""),
			Due: carillon.At(time.Unix(0, r.now).Add(10 * time.Minute)), Priority: carillon.PriorityCritical})
		r.advance(10 * time.Minute)
		ds := r.deliver(10)
		if len(ds) != 1 || ds[0].Run.Job != name {
			t.Fatalf("beside %d awaited runs, with %d bytes of specs in memory, these leave: %+v", len(out),
				r.m.Stats().Bytes, ds)
		}
		r.succeed(ds[0])
		r.flush()
		if b := r.m.Stats().Bytes; b > window/2 {
			t.Errorf("%d bytes of specs are in memory", b)
		}
	}
	for i := range runs {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("awaited/%d", i), Target: awaiting, Timeout: 50 * time.Minute,
			Data: carillon.Bytes(make([]byte, 600), ""), FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
	}
	send(runs)
	bystander("first")
	r.start()
	bystander("second")

	half := carillon.Result{Outcome: carillon.OutcomeProgress, Progress: carillon.Progress{Percent: 50}}
	for i, d := range out[:100] {
		switch {
		case r.report(d, half) != partition.Accepted:
			t.Errorf("progress of %s is not accepted", d.Run.Job)
		case i < 50 && r.succeed(d) != partition.Accepted:
			t.Errorf("the completion of %s is not accepted", d.Run.Job)
		case i >= 50 && r.failRun(d) != partition.Accepted:
			t.Errorf("the failure of %s is not accepted", d.Run.Job)
		}
	}
	for _, d := range out[100:150] {
		r.bring(keyOf(d.Run.Job))
		if _, err := r.m.Jobs.Delete(r.now, keyOf(d.Run.Job)); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	if n := len(r.jobs()); n != 100 {
		t.Fatalf("%d jobs are left, want the 50 that have failed and the 50 that are awaited", n)
	}
	r.advance(time.Second)
	send(50) // retries
	if d := out[len(out)-1]; d.Run.Attempt != 2 || len(d.Run.Data.Bytes) != 600 {
		t.Errorf("a retry is attempt %d with %d bytes", d.Run.Attempt, len(d.Run.Data.Bytes))
	}
	r.advance(31 * time.Minute) // the timeout of the 50 that nobody has answered
	send(50)
	r.advance(time.Hour)
	if left := r.jobs(); len(left) != 0 {
		t.Errorf("after the timeout of their last attempt %d are left, the first %v", len(left), left[0].State.Phase)
	}
	if n := len(r.cancels); n != 50+50+100 {
		t.Errorf("%d attempts are cancelled, want 50 deleted, 50 first and 100 second attempts", n)
	}
}
