package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// halted is an attempt with a lease of 2 s and a timeout of 8 s that was handed out before the process stood
// still for some time. When it goes on, timers come first.
func halted(t *testing.T, d time.Duration) (*rig, delivery.Delivery) {
	t.Helper()
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 2 * time.Second, Timeout: 8 * time.Second})
	ds := r.deliver(1)
	if len(ds) != 1 {
		t.Fatalf("%d runs are due", len(ds))
	}
	r.now += int64(d)
	r.flush()
	return r, ds[0]
}

// TestWhatCameWhileANodeStoodStillCounts although the lease, or the timeout, ended meanwhile.
func TestWhatCameWhileANodeStoodStillCounts(t *testing.T) {
	for _, d := range []time.Duration{2050 * time.Millisecond, 4 * time.Second, 9 * time.Second, time.Hour} {
		r, had := halted(t, d)
		if v := r.succeed(had); v != partition.Accepted {
			t.Errorf("after %v a result is %v", d, v)
		}
	}
}

// TestALeaseThatEndedUnseenEndsSoon if nothing has come. It is put off only once.
func TestALeaseThatEndedUnseenEndsSoon(t *testing.T) {
	r, had := halted(t, 4*time.Second)
	r.advance(2*time.Second/4 - 1)
	if _, lost := r.m.Records.Holds(tokenOf(t, r, had).Run); !lost || len(r.cancels) != 0 {
		t.Error("it ended before a beat could have come")
	}
	r.now += int64(time.Second) // late again
	r.flush()
	if v := r.succeed(had); v != partition.Stale || len(r.cancels) != 1 {
		t.Errorf("later a result is %v, with %d cancels", v, len(r.cancels))
	}
}

// TestABeatAfterAHaltExtendsTheLease like any other heartbeat.
func TestABeatAfterAHaltExtendsTheLease(t *testing.T) {
	r, had := halted(t, 4*time.Second)
	if v := r.m.Attempts.Heartbeat(r.now, tokenOf(t, r, had)); v != partition.Accepted {
		t.Fatalf("a beat is %v", v)
	}
	r.advance(2*time.Second - 1)
	if v := r.m.Attempts.Heartbeat(r.now, tokenOf(t, r, had)); v != partition.Accepted {
		t.Errorf("just before the end of the lease a beat is %v", v)
	}
	r.advance(2 * time.Second)
	if v := r.succeed(had); v != partition.Stale {
		t.Errorf("at the end of the lease, seen in time, a result is %v", v)
	}
}

func tokenOf(t *testing.T, r *rig, d delivery.Delivery) message.Token {
	t.Helper()
	tok, err := message.ParseToken(d.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
