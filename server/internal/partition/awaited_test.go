package partition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestAwaitedAttemptsAreCounted while they are in force, however they end, and by the next owner, too. Those of the
// same topic that end with the broker's acknowledgement are not.
func TestAwaitedAttemptsAreCounted(t *testing.T) {
	r := newRig(t, partition.Config{})
	told := 0
	want := func(n int, when string) {
		t.Helper()
		for _, a := range r.m.Attempts.AppendAwaited(nil) {
			if a.Queue != queueAwaiting {
				t.Errorf("%s: %v is counted", when, a.Queue)
			}
			told = a.N
		}
		if told != n {
			t.Errorf("%s: %d attempts are counted, not %d", when, told, n)
		}
	}
	once := awaiting
	once.Kafka = &carillon.KafkaTarget{Cluster: "c", Topic: "t"}
	r.mustPut(carillon.Job{Name: "once", Target: once})
	const most = 6
	for i := range most {
		r.mustPut(carillon.Job{Name: fmt.Sprint("awaited", i), Target: awaiting, Timeout: time.Hour,
			FailurePolicy: carillon.Constant(24 * time.Hour).WithMaxRetries(1)})
	}
	r.step()
	want(0, "before they leave")
	r.m.Deliver(nil, r.now, queueAwaiting, most+1, false, nil)
	want(0, "before they are durable")
	ds, _ := r.granted()
	want(most, "when they leave")
	of := map[string]delivery.Delivery{}
	for _, d := range ds {
		of[d.Run.Job] = d
		if v := r.reportAs(d.Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
			t.Fatal(v)
		}
	}
	r.flush()
	want(most, "acknowledged")
	r.succeed(of["awaited0"])
	r.flush()
	want(most-1, "one has succeeded")
	r.failRun(of["awaited1"])
	r.flush()
	want(most-2, "one has failed")
	r.bring(keyOf("awaited2"))
	if _, err := r.m.Jobs.Delete(r.now, keyOf("awaited2")); err != nil {
		t.Fatal(err)
	}
	r.flush()
	want(most-3, "one is deleted")
	told = 0
	r.kill(time.Second)
	r.start()
	r.step()
	want(most-3, "after a takeover")
	r.succeed(of["awaited3"])
	r.flush()
	want(most-4, "one more has succeeded")
	r.advance(2 * time.Hour)
	r.step()
	want(0, "after their timeout")
}

// TestAwaitedAttemptsWithLongSpecsAreTakenOver although the window does not read such specs: those of jobs, of a
// triggered run, and of a triggered run with data of its own.
func TestAwaitedAttemptsWithLongSpecsAreTakenOver(t *testing.T) {
	long := map[string]string{"long": strings.Repeat("x", 2*partition.InlineSpec)}
	for _, c := range []struct {
		name  string
		begin func(r *rig) (attempts int)
	}{
		{"jobs", func(r *rig) int {
			for i := range 3 {
				r.mustPut(carillon.Job{Name: fmt.Sprint("awaited", i), Target: awaiting, Timeout: time.Hour,
					Metadata: long})
			}
			return 3
		}},
		{"triggered runs", func(r *rig) int {
			r.mustPut(carillon.Job{Name: "a", Target: awaiting, Timeout: time.Hour, Metadata: long,
				Schedule: "@yearly", Due: carillon.At(time.Unix(0, r.now).Add(1000 * time.Hour))})
			r.trigger("a")
			r.trigger("a")
			r.flush()
			return 2
		}},
		{"a triggered run with data of its own", func(r *rig) int {
			r.mustPut(carillon.Job{Name: "a", Target: awaiting, Timeout: time.Hour,
				Schedule: "@yearly", Due: carillon.At(time.Unix(0, r.now).Add(1000 * time.Hour))})
			r.bring(keyA)
			data := carillon.Data{Bytes: []byte(strings.Repeat("x", 2*partition.InlineSpec))}
			if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{Data: &data}, r.trace); err != nil {
				r.t.Fatal(err)
			}
			r.flush()
			return 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			want := c.begin(r)
			r.step()
			r.m.Deliver(nil, r.now, queueAwaiting, want, false, nil)
			ds, _ := r.granted()
			if len(ds) != want {
				t.Fatalf("%d attempts have left, not %d", len(ds), want)
			}
			for _, d := range ds {
				if v := r.reportAs(d.Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
					t.Fatal(v)
				}
			}
			r.flush()
			r.kill(time.Second)
			r.start()
			r.step()
			r.step()
			all := r.m.Attempts.AppendAwaited(nil)
			if len(all) != 1 || all[0] != (delivery.Awaited{Queue: queueAwaiting, N: want}) {
				t.Errorf("after a takeover %v are counted, not %d", all, want)
			}
			r.succeed(ds[0])
			r.flush()
			if all = r.m.Attempts.AppendAwaited(nil); len(all) != 1 || all[0].N != want-1 {
				t.Errorf("after the end of one %v are counted, not %d", all, want-1)
			}
		})
	}
}
