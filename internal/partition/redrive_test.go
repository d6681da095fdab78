package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// redrive redrives the newest run of the job "a", which is dead.
func (r *rig) redrive() carillon.Run {
	r.t.Helper()
	r.whole(keyA)
	run, err := r.m.Redrive(r.now, r.history("a")[0])
	if err != nil {
		r.t.Fatal(err)
	}
	r.flush()
	return run
}

// failAll fails the attempts of what is due, and the retries, until nothing is left.
func (r *rig) failAll() {
	r.t.Helper()
	for range 100 {
		r.recall()
		for _, d := range r.deliver(10) {
			if r.report(d, carillon.Result{Outcome: carillon.OutcomeFailure, Message: fmt.Sprint("error ", d.Run.Attempt)}) != partition.Accepted {
				r.t.Fatalf("the failure of attempt %d is refused", d.Run.Attempt)
			}
		}
		r.flush()
		if len(r.jobs()) == 0 || r.jobs()[0].State.Pending == 0 && !r.jobs()[0].State.Run.Live {
			return
		}
		r.advance(time.Second)
	}
	r.t.Fatal("its run does not end")
}

// redrivable are jobs whose first run dies after three attempts: one that is then gone, and one that is not.
var redrivable = map[string]carillon.Job{
	"one-shot": {Name: "a", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)},
	"recurring": {Name: "a", Schedule: "@daily", Due: carillon.At(time.Unix(0, epoch)), FailurePolicy: carillon.FailurePolicy{
		Kind: carillon.PolicyConstant, Interval: time.Second, OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(2)},
}

// TestARedriveKeepsTheEarlierErrors redrives a run twice, with the node killed in between.
func TestARedriveKeepsTheEarlierErrors(t *testing.T) {
	for kind, j := range redrivable {
		for _, kill := range []bool{false, true} {
			r := newRig(t, partition.Config{})
			r.landed = r.wantCounted
			r.mustPut(j)
			r.failAll()
			id := r.history("a")[0].ID
			for life := 1; life <= 3; life++ {
				h := r.history("a")
				if len(h) != 1 || h[0].ID != id || h[0].Status != carillon.RunDead || h[0].Attempt != 3*life || h[0].Started != epoch {
					t.Fatalf("%s: after %d lives the history is %+v", kind, life, h)
				}
				wantErrors(t, h[0].Errors, 3*(life-1), 3*life)
				run := r.redrive()
				wantErrors(t, run.Errors, 3*life, 3*life)
				if kill {
					r.start()
				}
				if life < 3 {
					r.failAll()
				}
			}
			r.advance(time.Second)
			d := r.deliver(1)[0]
			if d.Run.Attempt != 10 || r.succeed(d) != partition.Accepted {
				t.Fatalf("%s: attempt %d", kind, d.Run.Attempt)
			}
			r.flush()
			if h := r.history("a"); len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 10 {
				t.Fatalf("%s: in the end the history is %+v", kind, h)
			}
		}
	}
}

// wantErrors checks that there is an error of each attempt, or of the newest that fit, and that those up to
// redriven are marked.
func wantErrors(t *testing.T, errs []carillon.AttemptError, redriven, attempts int) {
	t.Helper()
	if len(errs) != min(attempts, carillon.MaxRunErrors) {
		t.Fatalf("after %d attempts there are %d errors", attempts, len(errs))
	}
	for i, e := range errs {
		n := attempts - len(errs) + i + 1
		if e.Attempt != n || e.Message != fmt.Sprint("error ", n) || e.Redriven != (n <= redriven) {
			t.Fatalf("error %d of %d is %+v", n, attempts, e)
		}
	}
}

// TestARedriveCountsTheRunOnce checks the counters of a job of which a run dies, is redriven and succeeds.
func TestARedriveCountsTheRunOnce(t *testing.T) {
	for kind, j := range redrivable {
		r := newRig(t, partition.Config{})
		r.landed = r.wantCounted
		r.mustPut(j)
		r.failAll()
		r.redrive()
		r.whole(keyA)
		back, err := r.m.Records.Job(keyA)
		if c := back.Status.Counters; err != nil || c.Fired != 1 || c.Dead != 0 {
			t.Errorf("%s: while it is tried again it counts %+v, %v", kind, c, err)
		}
		d := r.deliver(1)[0]
		r.whole(keyA)
		if now, err := r.m.Records.Job(keyA); err != nil || now.Status.Counters != back.Status.Counters {
			t.Errorf("%s: its fourth attempt is counted as a run: %+v, %v", kind, now.Status.Counters, err)
		}
		r.succeed(d)
		r.flush()
		if !j.Recurring() {
			continue
		}
		r.whole(keyA)
		want := carillon.Counters{Fired: 1, Succeeded: 1, Failed: 3, Retried: 2}
		if after, err := r.m.Records.Job(keyA); err != nil || after.Status.Counters != want {
			t.Errorf("%s: in the end it counts %+v, %v", kind, after.Status.Counters, err)
		}
	}
}

// TestARunOfAnEarlierNamesakeIsCounted redrives a run whose job has been deleted and put again since.
func TestARunOfAnEarlierNamesakeIsCounted(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(redrivable["one-shot"])
	r.failAll()
	r.mustPut(carillon.Job{Name: "a", Schedule: "@daily"})
	r.redrive()
	r.succeed(r.deliver(1)[0])
	r.flush()
	r.whole(keyA)
	want := carillon.Counters{Fired: 1, Succeeded: 1}
	if j, err := r.m.Records.Job(keyA); err != nil || j.Status.Counters != want {
		t.Errorf("it counts %+v, %v", j.Status.Counters, err)
	}
}
