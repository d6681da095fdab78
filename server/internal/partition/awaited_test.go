package partition_test

import (
	"fmt"
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
	want(most, "before they are durable")
	ds, _ := r.granted()
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
