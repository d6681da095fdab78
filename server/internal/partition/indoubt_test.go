package partition_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// kill ends the owner now and starts the next one later. What was not written is lost.
func (r *rig) kill(later time.Duration) {
	r.now += int64(later)
	r.start()
	r.flush()
}

// left is a job whose owner handed out its first time, at 10 s, and was killed before that was written. The
// next owner has it.
func (r *rig) left(j carillon.Job) delivery.Delivery {
	r.t.Helper()
	j.Name, j.Schedule = "a", "@every 10s"
	r.mustPut(j)
	r.advance(10 * time.Second)
	ds := r.deliver(1)
	if len(ds) != 1 {
		r.t.Fatalf("%d runs are due", len(ds))
	}
	r.advance(500 * time.Millisecond)
	r.kill(57 * time.Second)
	return ds[0]
}

// again takes the attempt that is handed out again, which must be the same.
func (r *rig) again(left delivery.Delivery) delivery.Delivery {
	r.t.Helper()
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.ID != left.Run.ID || ds[0].Run.Token != left.Run.Token ||
		ds[0].Run.Attempt != left.Run.Attempt {
		r.t.Fatalf("after a kill %+v was handed out, want once more %+v", ds, left.Run)
	}
	if ds[0].Run.InDoubt == 0 {
		r.t.Fatalf("it is not said to be in doubt: %+v", ds[0].Run)
	}
	return ds[0]
}

// recordOf is the record of a run in the history.
func (r *rig) recordOf(d delivery.Delivery) store.RunRecord {
	r.t.Helper()
	for _, h := range r.history("a") {
		if h.ID.String() == d.Run.ID {
			return h
		}
	}
	r.t.Fatalf("run %s is not in the history", d.Run.ID)
	return store.RunRecord{}
}

// TestWhatLeftIsNotPassedOver kills the owner right after it has handed out a time that the store knows
// nothing of. Later times that were missed follow the overlap and misfire rules.
func TestWhatLeftIsNotPassedOver(t *testing.T) {
	missed := map[carillon.MisfireRule][]int{carillon.MisfireLatest: {60}, carillon.MisfireSkip: nil,
		carillon.MisfireAll: {20, 30, 40, 50, 60}}
	for _, overlap := range []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapSkip,
		carillon.OverlapAllow, carillon.OverlapReplace} {
		for misfire, then := range missed {
			for _, data := range []carillon.Data{{}, long} {
				t.Run(fmt.Sprint(overlap, " ", misfire, " ", len(data.Bytes)), func(t *testing.T) {
					r := newRig(t, partition.Config{})
					d := r.again(r.left(carillon.Job{Overlap: overlap,
						Misfire: carillon.Misfire{Rule: misfire}, Data: data}))
					if v := r.succeed(d); v != partition.Accepted {
						t.Fatalf("its success is answered %d", v)
					}
					r.flush()
					if h := r.recordOf(d); h.Status != carillon.RunSucceeded || h.Attempt != 1 || h.InDoubt != 1 {
						t.Errorf("record %+v", h)
					}
					switch { // a run in doubt counts as unfinished
					case overlap == carillon.OverlapSkip:
						then = nil
					case overlap == carillon.OverlapReplace && misfire == carillon.MisfireAll:
						then = missed[carillon.MisfireLatest]
					}
					if got := r.workOff(); !slices.Equal(got, then) {
						t.Errorf("then it ran %v, want %v", got, then)
					}
					accounted(t, r, "a", 10*time.Second, 6)
				})
			}
		}
	}
}

// TestUnderReplaceItRunsAgainFirst: it is replaced only after it has been handed out.
func TestUnderReplaceItRunsAgainFirst(t *testing.T) {
	r := newRig(t, partition.Config{})
	left := r.left(carillon.Job{Overlap: carillon.OverlapReplace})
	r.advance(15 * time.Second) // nobody takes it, and others come
	d := r.again(left)
	r.advance(time.Second)
	if h := r.recordOf(d); h.Status != carillon.RunCancelled ||
		h.Reason != partition.ReasonOverlap || h.Attempt != 1 {
		t.Errorf("record %+v", h)
	}
	if ds := r.deliver(1); len(ds) != 1 || second(ds[0]) != 80 {
		t.Errorf("then %+v", ds)
	}
}

// TestRepeatsCountWhatLeftOnce kills the owner after each attempt.
func TestRepeatsCountWhatLeftOnce(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapAllow,
		carillon.OverlapReplace} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Repeats: 3, Overlap: overlap})
		ids := map[string]bool{}
		for range 20 {
			r.advance(10 * time.Second)
			for _, d := range r.deliver(1) {
				ids[d.Run.ID] = true
			}
			r.kill(0)
			for _, d := range r.deliver(1) {
				ids[d.Run.ID] = true
				r.succeed(d)
				r.flush()
			}
		}
		if len(ids) != 3 {
			t.Errorf("%v: %d runs were handed out", overlap, len(ids))
		}
	}
}

// TestAResultOfWhatLeftCounts, both before the attempt was made again, which it then is not, and after.
func TestAResultOfWhatLeftCounts(t *testing.T) {
	for _, redelivered := range []bool{false, true} {
		for outcome, status := range map[carillon.Outcome]carillon.RunStatus{
			carillon.OutcomeSuccess: carillon.RunSucceeded, carillon.OutcomeFailure: carillon.RunFailed} {
			r := newRig(t, partition.Config{})
			left := r.left(carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip},
				FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyDrop}})
			if redelivered {
				r.again(left)
			}
			for range 2 { // sent again, it gets the same answer
				if v := r.report(left, carillon.Result{Outcome: outcome}); v != partition.Accepted {
					t.Fatalf("redelivered %v: answered %d", redelivered, v)
				}
				r.flush()
			}
			if v := r.report(left, carillon.Result{Outcome: carillon.OutcomeProgress}); v != partition.Stale {
				t.Errorf("progress after the end is answered %d", v)
			}
			if h := r.recordOf(left); h.Status != status || h.Attempt != 1 || h.InDoubt != 1 {
				t.Errorf("record %+v", h)
			}
			if ds := r.deliver(10); len(ds) != 0 {
				t.Errorf("then %+v", ds)
			}
			j := r.job("a")
			if c := j.Status.Counters; c.Fired != 1 || c.Retried != 0 {
				t.Errorf("counters %+v", c)
			}
		}
	}
}

// TestABeatOfWhatLeftKeepsIt with its worker for as long as the worker sends heartbeats.
func TestABeatOfWhatLeftKeepsIt(t *testing.T) {
	for _, data := range []carillon.Data{{}, long} {
		r := newRig(t, partition.Config{})
		left := r.left(carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip},
			Lease: 10 * time.Second, Data: data})
		tok, err := message.ParseToken(left.Run.Token, r.store.Meta().MACKey)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Accepted {
				t.Fatalf("a beat is answered %d", v)
			}
			if ds := r.deliver(1); len(ds) != 0 {
				t.Fatalf("it is handed out again: %+v", ds)
			}
			r.advance(5 * time.Second)
		}
		r.advance(11 * time.Second)
		ds := r.deliver(1)
		if len(ds) != 1 || ds[0].Run.ID != left.Run.ID || ds[0].Run.Attempt != 2 ||
			ds[0].Run.Token == left.Run.Token {
			t.Fatalf("after its lease %+v", ds)
		}
		if v := r.m.Attempts.Heartbeat(r.now, tok); v != partition.Stale {
			t.Errorf("a beat after that is answered %d", v)
		}
	}
}

// TestKillsInARowKeepTheToken as long as nothing is written, and no longer.
func TestKillsInARowKeepTheToken(t *testing.T) {
	r := newRig(t, partition.Config{})
	left := r.left(carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}})
	for range 150 { // a backlog may wait for minutes, while its node is killed each second
		r.again(left)
		r.kill(time.Second)
	}
	if d := r.again(left); d.Run.InDoubt != 1 {
		t.Errorf("one attempt was in doubt: %+v", d.Run)
	}
	r.report(left, carillon.Result{Outcome: carillon.OutcomeFailure, RetryAfter: time.Second})
	r.flush()
	r.advance(2 * time.Second)
	second := r.deliver(1)[0]
	if second.Run.Attempt != 2 {
		t.Fatalf("then attempt %+v", second.Run)
	}
	r.kill(time.Second)
	if v := r.succeed(left); v != partition.Stale {
		t.Errorf("a success of the attempt before is answered %d", v)
	}
	if d := r.again(second); d.Run.InDoubt != 2 {
		t.Errorf("two attempts were in doubt: %+v", d.Run)
	}
}

// TestAnOrderlyEndLeavesNoDoubt except that of earlier terms.
func TestAnOrderlyEndLeavesNoDoubt(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
	r.advance(15 * time.Second) // nobody takes it
	r.m.Attempts.KeepAll()
	r.flush()
	r.kill(50 * time.Second)
	if got := r.workOff(); !slices.Equal(got, []int{60}) {
		t.Errorf("it ran %v", got)
	}
	if h := r.history("a"); h[0].InDoubt != 0 {
		t.Errorf("history %+v", h)
	}
	r = newRig(t, partition.Config{})
	left := r.left(carillon.Job{})
	r.restart() // in order, and it had not handed it out
	r.again(left)
}

// TestOnlyWhatMayHaveLeftIsInDoubt, and not what was due after the last instant at which something can have
// been handed out.
func TestOnlyWhatMayHaveLeftIsInDoubt(t *testing.T) {
	for last, want := range map[time.Duration][]int{ // the owner is up until then
		9 * time.Second:  {21600},
		10 * time.Second: {10, 21600},
		// The second cannot have been handed out before the end of the first was durable.
		29 * time.Second: {10, 21600},
	} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s"})
		r.advance(last)
		r.kill(6*time.Hour + 5*time.Second - last)
		if got := r.workOff(); !slices.Equal(got, want) {
			t.Errorf("killed after %v it ran %v, want %v", last, got, want)
		}
	}
}

// TestWhatIsAskedOfARunInDoubt: every call treats it as a run that has had an attempt.
func TestWhatIsAskedOfARunInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(r *rig)
		want store.RunRecord // of the run; zero: it is unfinished
	}{
		"pause": {func(r *rig) { r.pause("a", true) }, store.RunRecord{}},
		"skip":  {func(r *rig) { _, _ = r.skip("a") }, store.RunRecord{}},
		"labels": {func(r *rig) { r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Note: "n"}) },
			store.RunRecord{}},
		"delete": {func(r *rig) {
			r.bring(keyOf("a"))
			if _, err := r.m.Jobs.Delete(r.now, keyOf("a")); err != nil {
				r.t.Fatal(err)
			}
		}, store.RunRecord{Status: carillon.RunCancelled, Reason: partition.ReasonDeleted}},
	} {
		for _, data := range []carillon.Data{{}, long} {
			t.Run(fmt.Sprint(name, len(data.Bytes)), func(t *testing.T) {
				r := newRig(t, partition.Config{})
				j := carillon.Job{Name: "a", Schedule: "@every 10s", Data: data}
				r.mustPut(j)
				r.advance(10 * time.Second)
				left := r.deliver(1)[0]
				r.now += int64(57 * time.Second)
				r.own() // and nothing is read yet but what is asked for
				if name == "labels" {
					j.Note = "n"
					if _, err := r.put(j); err != nil {
						t.Fatal(err)
					}
				} else {
					c.ask(r)
				}
				r.flush()
				if c.want.Status == 0 {
					r.again(left)
					return
				}
				if h := r.recordOf(left); h.Status != c.want.Status || h.Reason != c.want.Reason ||
					h.Attempt != 1 || h.InDoubt != 1 {
					t.Errorf("record %+v", h)
				}
			})
		}
	}
}

// TestOtherContentFencesWhatLeft just like a known attempt: the run goes on with its next attempt.
func TestOtherContentFencesWhatLeft(t *testing.T) {
	r := newRig(t, partition.Config{})
	left := r.left(carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s",
		Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}, Data: carillon.Bytes([]byte("other"), "")})
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.ID != left.Run.ID || ds[0].Run.Attempt != 2 || ds[0].Run.InDoubt != 1 {
		t.Fatalf("then %+v", ds)
	}
	if v := r.succeed(left); v != partition.Stale {
		t.Errorf("the success of what was fenced is answered %d", v)
	}
}

// TestRunsWithRecordsOfTheirOwnInDoubt are made again as they were: triggered runs, runs beside another,
// retries and parked runs. A pause withdraws none of them.
func TestRunsWithRecordsOfTheirOwnInDoubt(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"triggered": func(r *rig) {
			r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
			r.trigger("a")
		},
		"beside": func(r *rig) {
			r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Repeats: 2,
				Overlap: carillon.OverlapAllow, Lease: time.Hour})
			r.advance(10 * time.Second)
			r.deliver(1)
			r.advance(10 * time.Second)
		},
		"retried": func(r *rig) {
			policy := carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second}
			r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second), FailurePolicy: policy})
			r.advance(time.Second)
			r.failRun(r.deliver(1)[0])
			r.advance(time.Second)
		},
		"parked": func(r *rig) {
			r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second), Data: long})
			r.advance(3 * time.Second)
			r.m.Window.Stage(queueQ, r.now, 10)
			r.flush()
			r.recall()
		},
		"one-shot": func(r *rig) {
			r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)})
			r.advance(time.Second)
		},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, paused %v", name, paused), func(t *testing.T) {
				r := newRig(t, partition.Config{})
				prepare(r)
				r.flush()
				left := r.deliver(1)[0]
				r.kill(time.Minute)
				if paused { // before the next owner has made it again
					r.whole(keyOf("a"))
					r.pause("a", true)
				}
				r.recall()
				d := r.again(left)
				if v := r.succeed(d); v != partition.Accepted {
					t.Errorf("its success is answered %d", v)
				}
			})
		}
	}
}

// TestALifeThatEndsInDoubtIsNoSkip of a run that waits for a consumer until then.
func TestALifeThatEndsInDoubtIsNoSkip(t *testing.T) {
	r := newRig(t, partition.Config{})
	left := r.left(carillon.Job{TTL: carillon.In(time.Minute + 30*time.Second)})
	r.m.Window.Stage(queueQ, r.now, 10)
	r.flush()
	r.advance(time.Hour)
	if h := r.recordOf(left); h.Status != carillon.RunFailed || h.Reason != partition.ReasonExpired ||
		h.Attempt != 1 || h.InDoubt != 1 {
		t.Errorf("record %+v", h)
	}
}

// TestWhatLeftComesBackBeforeItsTime if the clock was set back meanwhile: a result counts, and nothing runs
// early.
func TestWhatLeftComesBackBeforeItsTime(t *testing.T) {
	for _, said := range []bool{false, true} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Due: carillon.In(10 * time.Second)})
		r.advance(10 * time.Second)
		left := r.deliver(1)[0]
		r.kill(-2 * time.Second)
		if ds := r.deliver(1); len(ds) != 0 {
			t.Fatalf("early: %+v", ds)
		}
		tok, err := message.ParseToken(left.Run.Token, r.store.Meta().MACKey)
		if err != nil || !r.m.Window.Awaits(tok, r.now) {
			t.Fatalf("what is said of it does not wait, %v", err)
		}
		r.advance(2 * time.Second)
		if !said {
			r.again(left)
		} else if v := r.succeed(left); v != partition.Accepted {
			t.Errorf("its success is answered %d", v)
		}
	}
}

// TestTheListOfTermsIsReadAsWritten and is bounded.
func TestTheListOfTermsIsReadAsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var terms partition.Terms
		n := rapid.SampledFrom([]int{0, 1, 10, 511, 512, 600}).Draw(rt, "terms")
		for i := range n {
			terms.Open = append(terms.Open, store.Term{Epoch: uint64(i + 1), Nonce: rapid.Uint64().Draw(rt, "nonce")})
			if rapid.Bool().Draw(rt, "end") {
				terms.End(func(store.Term) int64 { return int64(i) })
			}
			got, err := partition.ParseTerms(terms.Record().Value)
			if err != nil || !slices.Equal(got.Ended, terms.Ended) || !slices.Equal(got.Open, terms.Open) {
				rt.Fatalf("%+v is read as %+v, %v", terms, got, err)
			}
			if len(got.Ended) > 512 {
				rt.Fatalf("%d terms are kept", len(got.Ended))
			}
		}
	})
	if _, err := partition.ParseTerms(make([]byte, 25)); err == nil {
		t.Error("a list that is cut is read")
	}
}

// TestTermsOfOrigins: terms of partitions from before the store moved to another number of partitions are read
// as they were written, stay when terms of the partition itself go, and concern the records that they had.
func TestTermsOfOrigins(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var terms partition.Terms
		for i := range rapid.IntRange(0, 20).Draw(rt, "moved") {
			of := partition.Origin{Partitions: rapid.SampledFrom([]uint32{1, 2, 64, 65535}).Draw(rt, "partitions")}
			of.Partition = rapid.Uint32Range(0, of.Partitions-1).Draw(rt, "partition")
			terms.Ended = append(terms.Ended, partition.EndedTerm{Term: store.Term{Epoch: uint64(i + 1), Nonce: 7}, Until: 9, Of: of})
		}
		moved := slices.Clone(terms.Ended)
		for i := range rapid.SampledFrom([]int{0, 1, 512, 520}).Draw(rt, "own") {
			terms.Open = append(terms.Open, store.Term{Epoch: uint64(100 + i), Nonce: 8})
			terms.End(func(store.Term) int64 { return 10 })
		}
		got, err := partition.ParseTerms(terms.Record().Value)
		if err != nil || !slices.Equal(got.Ended, terms.Ended) || len(got.Open) > 0 {
			rt.Fatalf("%+v is read as %+v, %v", terms, got, err)
		}
		if !slices.Equal(got.Ended[:len(moved)], moved) || len(got.Ended) > len(moved)+512 {
			rt.Fatalf("%d terms are kept, with the moved ones %+v", len(got.Ended), got.Ended[:len(moved)])
		}
	})
	uid := store.NewUID(carillon.Key{Namespace: "default", Name: "a"}, [8]byte{})
	for n := range uint32(70) {
		at := uint32(store.PartitionOf(carillon.Key{Namespace: "default", Name: "a"}, int(n)+1))
		for p := range n + 1 {
			if had := (partition.Origin{Partition: p, Partitions: n + 1}).Had(uid); had != (p == at) {
				t.Errorf("partition %d of %d had a job of partition %d: %t", p, n+1, at, had)
			}
		}
	}
	e := partition.EndedTerm{Term: store.Term{Epoch: 5}, Until: 100, Of: partition.Origin{Partition: 1, Partitions: 2}}
	if e.Of.Partition = uint32(store.HashOf(uid) % 2); !e.Suspect(uid, 5, 100) {
		t.Error("a term is not suspected of what it had")
	}
	if e.Of.Partition ^= 1; e.Suspect(uid, 5, 100) {
		t.Error("a term is suspected of what another partition had")
	}
}

// TestRecordsThatWaitToBeReadAreAwaited by reports of attempts in doubt.
func TestRecordsThatWaitToBeReadAreAwaited(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(10 * time.Second)})
	r.advance(10 * time.Second)
	left := r.deliver(1)[0]
	tok, err := message.ParseToken(left.Run.Token, r.store.Meta().MACKey)
	if err != nil {
		t.Fatal(err)
	}
	r.own()
	if !r.m.Window.Awaits(tok, r.now) {
		t.Error("nothing has been read, and nothing is awaited")
	}
	other := tok
	other.Grant.Term.Epoch += 10
	if r.m.Window.Awaits(other, r.now) {
		t.Error("what is of no term before is awaited")
	}
	r.flush()
	if r.m.Window.Awaits(tok, r.now+1) {
		t.Error("all has been read, and something is awaited")
	}
	if v := r.succeed(left); v != partition.Accepted {
		t.Errorf("its success is answered %d", v)
	}
	if live, err := r.shard.MetaRecords(context.Background(),
		store.MetaQuery{Kind: store.KindTerms, Limit: 2}); err != nil || len(live) != 1 {
		t.Errorf("%d lists of terms, %v", len(live), err)
	}
}
