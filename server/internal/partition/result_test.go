package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestTheFirstFailureOfAnAttemptCounts: two consumers may have one attempt that was in doubt. If the second
// reports the same as the first, it gets the same answer. If it asks for no retry of what is already being
// retried, it does not.
func TestTheFirstFailureOfAnAttemptCounts(t *testing.T) {
	for _, c := range []struct {
		name      string
		permanent bool
		want      partition.Verdict
	}{
		{"again", false, partition.Accepted},
		{"and permanent", true, partition.Stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a"})
			d := r.deliver(1)[0]
			if v := r.failRun(d); v != partition.Accepted {
				t.Fatalf("the first failure is answered %d", v)
			}
			r.flush()
			if v := r.report(d, carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no",
				Permanent: c.permanent}); v != c.want {
				t.Errorf("the second is answered %d, want %d", v, c.want)
			}
			r.advance(time.Minute)
			if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 2 {
				t.Errorf("the next attempt: %+v", ds)
			}
		})
	}
}

func TestARepeatedResultWaitsOnlyForItsBatch(t *testing.T) {
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

func TestABeatNeedsNoSpec(t *testing.T) {
	r := newRig(t, partition.Config{WindowBytes: 16 << 10})
	for i := range 2 {
		r.mustPut(carillon.Job{Name: fmt.Sprint(i), Data: carillon.Bytes(make([]byte, 16<<10), "")})
	}
	first := r.deliver(1)[0]
	r.advance(time.Second)
	r.step() // the second one's spec takes the place of the first one's
	tok, err := message.ParseToken(first.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
}

// TestAnUndeliveredAttemptIsNowhere, although another change had the job written before it was handed out.
func TestAnUndeliveredAttemptIsNowhere(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Drop()})
	if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	d := r.deliver(1)[0]
	r.land() // the number of pending runs, and with it the attempt
	tok, err := message.ParseToken(d.Run.Token, r.store.Meta().MACKey)
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

func TestBeatsKeepALeaseWithoutWrites(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 40 * time.Second, Timeout: time.Hour})
	d := r.deliver(1)[0]
	tok, err := message.ParseToken(d.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for range 30 {
		r.now += int64(10 * time.Second)
		if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Accepted {
			t.Fatalf("beat: %v", v)
		}
		r.step()
		if r.take(); len(r.batches) > 0 {
			writes++
			r.land()
		}
	}
	if writes > 12 {
		t.Fatalf("%d writes for 30 beats", writes)
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("after 300 s of beats: %v", v)
	}
}

func TestTokensSurviveARestart(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second})
	d := r.deliver(1)[0]
	r.advance(2 * time.Second) // old enough for its grant to be durable
	r.start()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("delivered again while its lease lasts")
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("result over a restart: %v", v)
	}
	r.flush()
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("the same result again: %v", v)
	}
	if v := r.failRun(d); v != partition.Stale {
		t.Fatalf("another result of a finished attempt: %v", v)
	}
}
