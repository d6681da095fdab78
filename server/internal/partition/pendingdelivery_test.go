package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// deliverPending grants an attempt of the job "a", which must not be handed out yet.
func (r *rig) deliverPending(j carillon.Job) {
	r.t.Helper()
	j.Name = "a"
	r.mustPut(j)
	ds, rest := r.m.Deliver(nil, r.now, queueQ, 3, true, nil)
	if len(ds) != 0 || rest.Unused != 2 {
		r.t.Fatalf("handed out before it is durable: %+v, %d unused slots", ds, rest.Unused)
	}
	if ds, q := r.m.Attempts.Granted(nil, nil, r.now); len(ds)+len(q) != 0 {
		r.t.Fatalf("out before it is durable: %+v %v", ds, q)
	}
}

// granted applies the batch and returns what is handed out.
func (r *rig) granted() ([]delivery.Delivery, []delivery.Rest) {
	r.flush()
	return r.m.Attempts.Granted(nil, nil, r.now)
}

// runID returns the id of a job's unfinished run.
func (r *rig) runID(k carillon.Key) string {
	j, err := r.m.Records.Job(k)
	if err != nil {
		r.t.Fatal(err)
	}
	return j.Status.Current.ID
}

func (r *rig) small(kind byte) []store.MetaRecord {
	small, err := r.shard.MetaRecords(context.Background(), store.MetaQuery{Kind: kind, Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return small
}

func (r *rig) staged(q store.StagedQuery) []store.Record {
	records, err := r.shard.Staged(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return records
}

var keyA = carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}

func TestADurableAttemptLeavesOnceItIsInTheStore(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.deliverPending(carillon.Job{Timeout: time.Minute, Lease: 20 * time.Second})
	r.take()
	r.now += int64(30 * time.Second) // the store is slow: neither lease nor timeout runs
	r.step()
	ds, spare := r.granted()
	if len(ds) != 1 || len(spare) != 0 || !ds[0].Durable || ds[0].Run.Attempt != 1 {
		t.Fatalf("%+v %v", ds, spare)
	}
	if want := time.Unix(0, r.now).Add(time.Minute).UTC(); !ds[0].Run.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", ds[0].Run.Deadline, want)
	}
	if s := r.jobs()[0].State; s.Phase != carillon.PhaseRunning || s.Run.Attempt != 1 {
		t.Errorf("stored: %+v", s)
	}
	r.advance(2 * time.Second)
	if s := r.jobs()[0].State; s.Run.Deadline != ds[0].Run.Deadline.UnixNano() {
		t.Errorf("the store has it end at %d, the consumer at %d", s.Run.Deadline, ds[0].Run.Deadline.UnixNano())
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Errorf("verdict %v", v)
	}
	r.flush()
	if left := r.jobs(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestAnAttemptThatKillsTheProcessCounts(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: time.Second,
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)})
	starts := 0
	for range 20 {
		r.step()
		r.m.Deliver(nil, r.now, queueQ, 1, true, nil)
		ds, _ := r.granted()
		starts += len(ds)
		r.start() // and nobody had time to write anything
		r.advance(20 * time.Second)
	}
	if h := r.history("a"); starts != 3 || len(h) != 1 || h[0].Status != carillon.RunDead || h[0].Attempt != 3 {
		t.Fatalf("%d starts, history %+v", starts, h)
	}
}

// TestANewTermTakesBackWhatNeverLeft: an owner lost its term before it could hand out a pending delivery. The
// next term hands it out at once, under the same number, whether or not the store has it. An attempt that an
// earlier owner may have handed out is not withdrawn.
func TestANewTermTakesBackWhatNeverLeft(t *testing.T) {
	for _, landed := range []bool{false, true} {
		for _, beside := range []bool{false, true} {
			t.Run(fmt.Sprintf("landed %v, beside %v", landed, beside), func(t *testing.T) {
				r := newRig(t, partition.Config{})
				if beside {
					r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch).Add(time.Hour))})
					if _, err := r.m.Jobs.Trigger(r.now, keyA, carillon.TriggerOptions{}); err != nil {
						t.Fatal(err)
					}
					r.flush()
					r.m.Deliver(nil, r.now, queueQ, 1, true, nil)
				} else {
					r.deliverPending(carillon.Job{})
				}
				pending := r.m.Attempts.PendingDeliveries()
				if len(pending) != 1 || pending[0].Attempt != 1 {
					t.Fatalf("pending: %+v", pending)
				}
				if landed {
					r.land()
				}
				r.start()
				r.m.Attempts.Undelivered(r.now, pending[0])
				r.flush()
				ds := r.deliver(2)
				if len(ds) != 1 || ds[0].Run.Attempt != 1 || r.succeed(ds[0]) != partition.Accepted {
					t.Fatalf("delivered: %+v", ds)
				}
				r.flush()
				if h := r.history("a"); len(h) != 1 || h[0].Attempt != 1 || h[0].Status != carillon.RunSucceeded {
					t.Errorf("history: %+v", h)
				}
				if !beside {
					return
				}
				if j, err := r.m.Records.Job(keyA); err != nil ||
					j.Status.Counters != (carillon.Counters{Fired: 1, Succeeded: 1}) {
					t.Errorf("counted: %+v %v", j.Status.Counters, err)
				}
			})
		}
	}
}

// TestWhatHasLeftIsNotPledged: what was handed out or withdrawn is not among the pending deliveries.
func TestWhatHasLeftIsNotPledged(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.deliverPending(carillon.Job{Due: carillon.At(time.Unix(0, epoch))})
	if _, err := r.m.Jobs.Delete(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	if pending := r.m.Attempts.PendingDeliveries(); len(pending) != 0 {
		t.Errorf("deleted, and pending: %+v", pending)
	}
	r.flush()
	r.m.Attempts.Granted(nil, nil, r.now)
	r.deliverPending(carillon.Job{})
	if ds, _ := r.granted(); len(ds) != 1 || len(r.m.Attempts.PendingDeliveries()) != 0 {
		t.Errorf("left: %+v, pending: %+v", ds, r.m.Attempts.PendingDeliveries())
	}
}

// TestWhatEndsAnAttemptOnItsWay withdraws each before it is handed out: no consumer gets it, it does not
// count, its slot is free.
func TestWhatEndsAnAttemptOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(r *rig) error
		runs int // in the history
		left int // jobs that remain
	}{
		"cancel": {func(r *rig) error {
			id, err := store.ParseRunID(r.runID(keyA))
			c, ok := r.m.Jobs.Cancel(r.now, id)
			if !ok || !c.Prevented || c.Interrupted {
				t.Errorf("cancelled %+v %v", c, ok)
			}
			return err
		}, 1, 0},
		"delete": {func(r *rig) error {
			d, err := r.m.Jobs.Delete(r.now, keyA)
			if d.Interrupted {
				t.Error("interrupted what had not begun")
			}
			return err
		}, 1, 0},
		"put": {func(r *rig) error {
			_, err := r.put(carillon.Job{Name: "a", Data: carillon.Bytes([]byte("x"), "")})
			return err
		}, 0, 1},
		"leave": {func(r *rig) error { r.m.Attempts.KeepAll(); return nil }, 0, 1},
	} {
		for _, landed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, partition.Config{})
				r.deliverPending(carillon.Job{Due: carillon.At(time.Unix(0, epoch))})
				if landed {
					r.land()
				}
				if err := c.act(r); err != nil {
					t.Fatal(err)
				}
				ds, spare := r.granted()
				if len(ds) != 0 || len(spare) != 1 || len(r.cancels) != 0 {
					t.Fatalf("handed out %+v, spare %v, cancels %v", ds, spare, r.cancels)
				}
				if h := r.history("a"); len(h) != c.runs || (c.runs > 0 && h[0].Attempt != 0) {
					t.Errorf("history %+v", h)
				}
				if left := r.jobs(); len(left) != c.left {
					t.Fatalf("left %+v", left)
				}
				for _, d := range r.deliver(5) {
					if d.Run.Attempt != 1 {
						t.Errorf("attempt %d", d.Run.Attempt)
					}
				}
				if got := len(r.attempts); got != c.left {
					t.Errorf("%d delivered", got)
				}
				if s := r.m.Stats(); s.InFlight != c.left {
					t.Errorf("in flight %d", s.InFlight)
				}
			})
		}
	}
}

// counter is a limiter of one key for one machine.
type counter struct {
	most, inForce int
	waits         map[delivery.Line]int
	passed        int
}

func (c *counter) Take(delivery.Line) (bool, bool) {
	if c.inForce >= c.most {
		return false, true
	}
	c.inForce++
	return true, true
}
func (c *counter) Free(delivery.Limit)                     { c.inForce-- }
func (c *counter) Spend(delivery.Limit)                    { c.inForce-- }
func (c *counter) Wait(l delivery.Line, _ int64, want int) { c.waits[l] = want }
func (c *counter) Pass(delivery.Line)                      { c.passed++ }
func (c *counter) Leave(l delivery.Line)                   { delete(c.waits, l) }

// limited is a rig whose jobs share one limit of n.
func limited(t tb, n int, cfg partition.Config) (*rig, *counter) {
	c := &counter{most: n, waits: map[delivery.Line]int{}}
	cfg.Limiter = c
	return newRig(t, cfg), c
}

// tellTokens promotes every line that waits, as the engine does.
func (r *rig) tellTokens(c *counter) {
	for l := range c.waits { // one, in these tests
		delete(c.waits, l)
		r.m.Promote(r.now, l, max(0, c.most-c.inForce))
	}
	for {
		sq, ok := r.m.Window.WantStaged(lineQ.Parked(), 100)
		if !ok {
			break
		}
		r.m.LoadStaged(lineQ.Parked(), sq, r.staged(sq), r.now)
	}
}

var lineQ = delivery.Line{Limit: delivery.Limit{Namespace: carillon.DefaultNamespace,
	Key: "k"}, Queue: queueQ}

// TestALimitBlocksNobodyElse has one permit for ten runs that are due before a run without a limit.
func TestALimitBlocksNobodyElse(t *testing.T) {
	for _, parked := range []bool{false, true} {
		r, c := limited(t, 1, partition.Config{})
		for i := range 10 {
			r.mustPut(carillon.Job{Name: "limited/" + string(rune('0'+i)), ConcurrencyKey: "k",
				Due: carillon.At(time.Unix(0, epoch-int64(10-i)))})
		}
		r.mustPut(carillon.Job{Name: "z"})
		ds, rest := r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
		if len(ds) != 1 || ds[0].Run.Job != "z" || rest.Unused != 3 {
			t.Fatalf("%+v, %d unused", ds, rest.Unused)
		}
		r.succeed(ds[0])
		var order string
		for range 10 {
			ds, _ := r.granted()
			if len(ds) != 1 {
				t.Fatalf("%d leave with one token; parked %v", len(ds), parked)
			}
			if small := r.small(store.KindLimited); len(small) != 1 {
				t.Fatalf("the store knows of %d tokens", len(small))
			}
			order += ds[0].Run.Job[len("limited/"):]
			if parked {
				r.now++
				r.m.Window.StageAside(r.now, 100)
				r.flush()
				if s := r.m.Stats(); s.Resident != 1 {
					t.Fatalf("parked, but %d are in memory", s.Resident)
				}
			}
			if v := r.succeed(ds[0]); v != partition.Accepted {
				t.Fatal(v)
			}
			if c.inForce != 1 {
				t.Fatal("the token is free before the end of its attempt is durable")
			}
			r.flush()
			r.tellTokens(c)
			r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
			r.m.Permits.ReturnUnused()
		}
		r.flush()
		if order != "0123456789" {
			t.Errorf("order %s", order)
		}
		if c.inForce != 0 || len(r.small(store.KindLimited)) != 0 || len(c.waits) != 0 ||
			len(r.small(store.KindParked)) != 0 {
			t.Errorf("left: %+v", c)
		}
		if s := r.m.Stats(); s != (partition.Stats{}) {
			t.Errorf("left in memory: %+v", s)
		}
	}
}

func TestTokensOutliveTheOwner(t *testing.T) {
	r, c := limited(t, 2, partition.Config{})
	for _, name := range []string{"a", "b", "c"} {
		r.mustPut(carillon.Job{Name: name, ConcurrencyKey: "k", Lease: time.Minute,
			FailurePolicy: carillon.Constant(time.Hour)})
	}
	r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
	ds, _ := r.granted()
	if len(ds) != 2 {
		t.Fatalf("%d in force", len(ds))
	}
	r.m.Write(store.MetaRecord{Kind: store.KindLimited, Key: "k\x00default\x00gone\x000", Value: []byte{1}})
	r.flush()
	c.inForce = 0
	r.start()
	if c.inForce = len(r.held); len(r.held) != 2 {
		t.Fatalf("charged with %v", r.held)
	}
	r.step()
	if ds, rest := r.m.Deliver(nil, r.now, queueQ, 5, false, nil); len(ds) != 0 || rest.Unused != 5 {
		t.Fatalf("handed out beyond the limit: %+v", ds)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatal(v)
	}
	if v := r.failRun(ds[1]); v != partition.Accepted { // it will be retried
		t.Fatal(v)
	}
	r.flush()
	if c.inForce != 0 || len(r.small(store.KindLimited)) != 0 {
		t.Fatalf("%d tokens are taken, the store has %v", c.inForce, r.small(store.KindLimited))
	}
}

// TestTokensThatComeTooEarly are reserved while the runs that wait for them are being parked. They are asked
// for again.
func TestTokensThatComeTooEarly(t *testing.T) {
	r, c := limited(t, 0, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", ConcurrencyKey: "k"})
	r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
	r.m.Window.StageAside(r.now, 10)
	c.most = 1
	r.tellTokens(c)
	r.m.Permits.ReturnUnused()
	if len(c.waits) != 0 {
		t.Fatal("it asks again although nothing has changed: that would go round and round")
	}
	r.flush()
	if len(c.waits) != 1 {
		t.Fatal("nobody asks for a token any more")
	}
	delete(c.waits, lineQ)
	r.m.Promote(r.now, lineQ, 1) // and the store cannot be read
	r.m.Permits.ReturnUnused()
	if r.m.Permits.WaitAgain(); len(c.waits) != 1 {
		t.Fatal("nobody asks for a token after a failed read")
	}
	r.tellTokens(c)
	r.m.Deliver(nil, r.now, queueQ, 5, false, nil)
	r.m.Permits.ReturnUnused()
	if ds, _ := r.granted(); len(ds) != 1 {
		t.Fatalf("%+v", ds)
	}
}
