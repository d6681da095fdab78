package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func TestOneShotLeavesNothingBehind(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(2 * time.Second)})
	if ds := r.deliver(10); len(ds) != 0 {
		t.Fatalf("delivered %d before it was due", len(ds))
	}
	r.advance(2 * time.Second)
	ds := r.deliver(10)
	if len(ds) != 1 || ds[0].Run.Attempt != 1 || ds[0].Run.Job != "a" {
		t.Fatalf("got %+v", ds)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
	r.flush()
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Fatalf("left in memory: %+v", s)
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 1 {
		t.Fatalf("history %+v", h)
	}
}

func TestTTL(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 2s", Due: carillon.In(2 * time.Second),
		TTL: carillon.In(5 * time.Second)})
	var at []int64
	for range 20 {
		r.advance(time.Second)
		for _, d := range r.deliver(1) {
			at = append(at, (d.Run.Scheduled.UnixNano()-epoch)/int64(time.Second))
			r.succeed(d)
			r.flush()
		}
	}
	if len(at) != 3 || at[0] != 2 || at[1] != 4 || at[2] != 6 || len(r.jobs()) != 0 {
		t.Fatalf("ran at %v, jobs %v", at, r.jobs())
	}
}

func TestTokens(t *testing.T) {
	key := []byte("0123456789abcdef0123456789abcdef")
	tok := message.Token{
		Grant: store.Grant{Term: store.Term{Epoch: 7, Nonce: 9}, Generation: 300}, Attempt: 2,
		Run: store.RunID{Partition: 3, UID: carillon.UID{1, 2, 3}, Scheduled: epoch, Cause: carillon.CauseTrigger, Seq: 77},
	}
	s := tok.Sign(key)
	got, err := message.ParseToken(s, key)
	if err != nil || got != tok {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range len(s) {
		flipped := []byte(s)
		if flipped[i] == 'A' {
			flipped[i] = 'B'
		} else {
			flipped[i] = 'A'
		}
		if forged, err := message.ParseToken(string(flipped), key); err == nil && forged != tok {
			t.Fatalf("byte %d changed and the token is believed", i)
		}
	}
	if _, err := message.ParseToken(s, []byte("another key")); err == nil {
		t.Fatal("believed under another key")
	}
}
