package brokertarget

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// TestABatchIsOnePublish, in the order in which it was delivered; what the client says of each is its outcome.
func TestABatchIsOnePublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got [][]broker.Message
		r := newRig(t, Options{}, func(_ context.Context, ms []broker.Message, done func(int, error)) {
			got = append(got, ms)
			done(2, errRefused)
			done(0, nil)
			done(1, errCut)
		})
		r.deliver(attempts(0, 3)...)
		synctest.Wait()
		if len(got) != 1 || len(got[0]) != 3 {
			t.Fatalf("%d publishes", len(got))
		}
		for i, m := range got[0] {
			if m.ID != attempt(i).Run.ID {
				t.Errorf("message %d is %s", i, m.ID)
			}
		}
		for i, want := range []carillon.Result{
			{Outcome: carillon.OutcomeSuccess},
			{Message: "connection: cut: the broker may have it"},
			{Message: "refused\ntoo large", Permanent: true},
		} {
			one, ok := r.report(i)
			if !ok || one.Outcome != want.Outcome || one.Message != want.Message || one.Permanent != want.Permanent ||
				one.RunID != attempt(i).Run.ID || one.Worker != inQueue.Address {
				t.Errorf("%d: %+v", i, one.Result)
			}
		}
		if n := r.room(); n != inFlight {
			t.Errorf("there is room for %d afterwards", n)
		}
		r.close()
	})
}

// TestABrokerThatIsAway gets one run after each pause, which is twice as long each time, and all of them once
// it has taken one. What was not sent is handed back, and is no failure.
func TestABrokerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, all(errAway))
		r.deliver(attempts(0, inFlight)...)
		synctest.Wait()
		for i := range inFlight {
			if _, reported := r.report(i); reported || r.handedBack(i) != 1 {
				t.Errorf("%d: reported %v, handed back %d times", i, reported, r.handedBack(i))
			}
		}
		for pause, i := firstPause, inFlight; i < inFlight+8; pause, i = min(2*pause, lastPause), i+1 {
			if n := r.room(); n != 0 {
				t.Fatalf("during the pause there is room for %d", n)
			}
			c := r.hub.Look(inQueue)
			if time.Until(c.PausedUntil) != pause || !strings.Contains(c.PausedFor, "it is away") {
				t.Fatalf("it pauses for %v, not %v: %s", time.Until(c.PausedUntil), pause, c.PausedFor)
			}
			<-time.After(pause)
			synctest.Wait()
			if n := r.room(); n != 1 {
				t.Fatalf("after the pause there is room for %d", n)
			}
			r.deliver(attempt(i))
			synctest.Wait()
		}
		r.client().does(all(nil))
		<-time.After(lastPause)
		synctest.Wait()
		r.deliver(attempt(100))
		synctest.Wait()
		if n := r.room(); n != inFlight {
			t.Errorf("it is back, and there is room for %d", n)
		}
		r.client().does(all(errAway))
		r.deliver(attempt(101))
		synctest.Wait()
		if c := r.hub.Look(inQueue); time.Until(c.PausedUntil) != firstPause {
			t.Errorf("away again, it pauses for %v", time.Until(c.PausedUntil))
		}
		r.close()
	})
}

// TestAnUnknownBroker makes runs wait until it is configured, and then they go at once.
func TestAnUnknownBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, nil)
		r.deliver(attempt(0))
		synctest.Wait()
		if r.handedBack(0) != 1 || r.room() != 0 {
			t.Fatalf("handed back %d times", r.handedBack(0))
		}
		if why := r.transport.Refuses("events/runs.a"); !strings.Contains(why, `no broker "events"`) {
			t.Error(why)
		}
		r.apply("1")
		r.client().does(all(nil))
		synctest.Wait()
		if n := r.room(); n != 1 {
			t.Fatalf("it is configured, and there is room for %d", n)
		}
		r.deliver(attempt(1))
		synctest.Wait()
		if one, ok := r.report(1); !ok || one.Outcome != carillon.OutcomeSuccess || r.room() != inFlight {
			t.Errorf("%+v, and there is room for %d", one.Result, r.room())
		}
		if why := r.transport.Refuses("events/runs.a"); why != "" {
			t.Error(why)
		}
		r.close()
	})
}

// TestAClientThatSaysNothing: the attempts fail when their time is over, and one tries what comes next.
func TestAClientThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(context.Context, []broker.Message, func(int, error)) {}
		r := newRig(t, Options{}, silent)
		r.deliver(attempts(0, 2)...)
		<-time.After(time.Minute + overdue - 1)
		synctest.Wait()
		if _, ok := r.report(0); ok {
			t.Fatal("reported before its time was over")
		}
		<-time.After(1)
		synctest.Wait()
		one, _ := r.report(1)
		if one.Permanent || one.Message != "timeout: no acknowledgement within 1m, the broker may have it" {
			t.Errorf("%+v", one.Result)
		}
		if n := r.room(); n != 0 {
			t.Errorf("there is room for %d at once", n)
		}
		<-time.After(firstPause)
		synctest.Wait()
		if n := r.room(); n != 1 {
			t.Errorf("there is room for %d afterwards", n)
		}
		r.close()
	})
}

// TestATimeoutIsTheClientsToTell: what it has not sent by then is handed back.
func TestATimeoutIsTheClientsToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(ctx context.Context, _ []broker.Message, done func(int, error)) {
			<-ctx.Done() // it dials
			done(0, errAway)
			done(1, ctx.Err())
		})
		r.deliver(attempts(0, 2)...)
		<-time.After(time.Minute)
		synctest.Wait()
		if one, ok := r.report(1); r.handedBack(0) != 1 || !ok || !strings.HasPrefix(one.Message, "timeout: ") {
			t.Errorf("handed back %d times; %+v", r.handedBack(0), one.Result)
		}
		r.close()
	})
}

// TestCancel ends what was not sent at once, and says nothing of what was.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first func(int, error)
		dials := make(chan struct{})
		r := newRig(t, Options{}, func(_ context.Context, ms []broker.Message, done func(int, error)) {
			if first == nil {
				first = done
				<-dials
				return
			}
			for i := range ms {
				done(i, nil)
			}
		})
		r.deliver(attempt(0))
		synctest.Wait()
		r.deliver(attempts(1, 2)...)
		r.hub.Cancel([]delivery.Cancel{{Queue: inQueue, Token: attempt(0).Run.Token},
			{Queue: inQueue, Token: attempt(1).Run.Token}})
		synctest.Wait()
		if n := r.room(); n != inFlight-2 {
			t.Errorf("there is room for %d", n)
		}
		close(dials)
		synctest.Wait()
		first(0, nil)
		synctest.Wait()
		_, zero := r.report(0)
		_, one := r.report(1)
		_, two := r.report(2)
		if zero || one || !two || r.room() != inFlight {
			t.Errorf("reported: %v %v %v; room for %d", zero, one, two, r.room())
		}
		r.close()
	})
}

// TestDrain waits for what is under way, and hands back what cannot be sent any more.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acks []func(int, error)
		r := newRig(t, Options{}, func(_ context.Context, _ []broker.Message, done func(int, error)) {
			acks = append(acks, done)
		})
		r.deliver(attempt(0))
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- r.hub.Drain(t.Context()) }()
		synctest.Wait()
		acks[0](0, nil)
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		if one, ok := r.report(0); !ok || one.Outcome != carillon.OutcomeSuccess {
			t.Errorf("%+v", one.Result)
		}
		r.close()
	})
}

// TestDrainByForce tells what is known of each attempt.
func TestDrainByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(ctx context.Context, ms []broker.Message, done func(int, error)) {
			<-ctx.Done()
			done(0, errAway)
			done(1, ctx.Err())
		})
		r.deliver(attempts(0, 2)...)
		synctest.Wait()
		r.deliver(attempt(2)) // not given to the client, which is busy
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.hub.Drain(ctx); err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		one, ok := r.report(1)
		if r.handedBack(0) != 1 || r.handedBack(2) != 1 || !ok || one.Message != errStopped.Error() {
			t.Errorf("handed back %d and %d times; %+v", r.handedBack(0), r.handedBack(2), one.Result)
		}
		r.close()
	})
}

// TestWhatIsOverIsNotGiven: what was cancelled or handed back is not sent, and what the client has is neither.
func TestWhatIsOverIsNotGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, all(nil))
		q := &queue{transport: r.transport, subscription: nil}
		for name, end := range map[string]func(f *flight){
			"cancelled":   func(f *flight) { f.cancelled, f.over = true, true },
			"handed back": func(f *flight) { f.over = true },
		} {
			f := &flight{queue: q}
			end(f)
			if f.give() {
				t.Errorf("what was %s is given to the client", name)
			}
		}
		given := &flight{queue: q}
		if !given.give() {
			t.Fatal("it is not given")
		}
		given.finishUngiven(outcome{unsent: "the node is leaving"})
		given.cancel()
		if given.over {
			t.Error("what the client has was handed back")
		}
		r.close()
	})
}

// TestWhatHasNoTimeLeftIsNotSent: the client was busy until then. It is handed back, and nothing pauses.
func TestWhatHasNoTimeLeftIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent int
		r := newRig(t, Options{}, func(_ context.Context, ms []broker.Message, done func(int, error)) {
			if sent += len(ms); sent == 1 {
				<-time.After(time.Minute)
			}
			all(nil)(t.Context(), ms, done)
		})
		r.deliver(attempt(0))
		synctest.Wait()
		r.deliver(attempt(1))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if sent != 1 || r.handedBack(1) != 1 || r.room() != inFlight {
			t.Errorf("%d sent, handed back %d times, room for %d", sent, r.handedBack(1), r.room())
		}
		r.close()
	})
}

// TestABrokerThatTakesSome pauses, and then gets as many as before.
func TestABrokerThatTakesSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, func(_ context.Context, ms []broker.Message, done func(int, error)) {
			for i := range ms {
				done(i, []error{nil, errAway}[i%2])
			}
		})
		r.deliver(attempts(0, inFlight)...)
		synctest.Wait()
		if c := r.hub.Look(inQueue); time.Until(c.PausedUntil) != firstPause || r.room() != 0 {
			t.Errorf("it pauses for %v, and there is room for %d", time.Until(c.PausedUntil), r.room())
		}
		<-time.After(firstPause)
		synctest.Wait()
		if n := r.room(); n != inFlight {
			t.Errorf("after the pause there is room for %d", n)
		}
		r.close()
	})
}

// TestARefusalIsNoSignOfLife: a client refuses some messages by itself. The pauses of a broker that is away
// become longer all the same.
func TestARefusalIsNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, all(errAway))
		r.deliver(attempt(0))
		synctest.Wait()
		<-time.After(firstPause)
		synctest.Wait()
		r.client().does(all(errRefused))
		r.deliver(attempt(1))
		synctest.Wait()
		if n := r.room(); n != 1 {
			t.Errorf("there is room for %d", n)
		}
		r.client().does(all(errAway))
		r.deliver(attempt(2))
		synctest.Wait()
		if c := r.hub.Look(inQueue); time.Until(c.PausedUntil) != 2*firstPause {
			t.Errorf("it pauses for %v", time.Until(c.PausedUntil))
		}
		r.close()
	})
}

// TestEveryAttemptEndsOnce whatever the client does, with cancels and changes of the brokers in between; and
// all slots are free in the end.
func TestEveryAttemptEndsOnce(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { everyAttemptEndsOnce(t, seed) })
		})
	}
}

func everyAttemptEndsOnce(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed))
	delays := make(chan time.Duration, 1<<16)
	outcomes := make(chan error, 1<<16)
	for range cap(delays) {
		delays <- time.Duration(random.Int64N(int64(90 * time.Second)))
		outcomes <- []error{nil, nil, nil, nil, errAway, errCut, errRefused}[random.IntN(7)]
	}
	r := newRig(t, Options{}, func(ctx context.Context, ms []broker.Message, done func(int, error)) {
		for i := range ms {
			delay, err := <-delays, <-outcomes
			go func() {
				select {
				case <-time.After(delay):
					done(i, err)
				case <-ctx.Done():
					done(i, ctx.Err())
				}
			}()
		}
	})
	cancelled := map[string]bool{}
	var sent []string
	for seq := 0; seq < 400; {
		n := r.slots(1 + random.IntN(inFlight))
		ds := attempts(seq, n)
		seq += n
		for _, d := range ds {
			sent = append(sent, d.Run.Token)
		}
		r.deliverAndLeave(ds)
		switch random.IntN(10) {
		case 0:
			r.apply(fmt.Sprint(seq))
		case 1:
			if len(sent) > 0 {
				token := sent[random.IntN(len(sent))]
				cancelled[token] = true
				r.hub.Cancel([]delivery.Cancel{{Queue: inQueue, Token: token}})
			}
		}
		<-time.After(time.Duration(random.Int64N(int64(20 * time.Second))))
	}
	<-time.After(3 * time.Minute)
	synctest.Wait()
	r.mu.Lock()
	for _, token := range sent {
		_, reported := r.reports[token]
		if ends := r.back[token]; reported && ends != 0 || !reported && ends != 1 && !cancelled[token] || ends > 1 {
			t.Errorf("%s: reported %v, handed back %d times, cancelled %v", token, reported, ends, cancelled[token])
		}
	}
	r.mu.Unlock()
	r.client().does(all(nil))
	r.deliver(attempt(1000))
	synctest.Wait()
	if n := r.room(); n != inFlight {
		t.Errorf("there is room for %d in the end", n)
	}
	for i, c := range r.clients {
		if last := i == len(r.clients)-1; c.isClosed() == last {
			t.Errorf("client %d of %d is closed: %v", i, len(r.clients), !last)
		}
	}
	r.close()
	if !slices.ContainsFunc(sent, func(token string) bool { return r.back[token] > 0 }) {
		t.Error("nothing was ever handed back")
	}
}
