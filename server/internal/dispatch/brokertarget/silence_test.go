package brokertarget

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// hung takes messages, and says nothing of them before their time is over.
func hung(ctx context.Context, ms []broker.Message, done func(int, error)) {
	context.AfterFunc(ctx, func() {
		for i := range ms {
			done(i, ctx.Err())
		}
	})
}

// each gives every message the time of a job of its own.
func each(timeout time.Duration, ds ...delivery.Delivery) []delivery.Delivery {
	for i := range ds {
		ds[i].Timeout = timeout
	}
	return ds
}

// TestABrokerThatAcknowledgesNothing costs those that it has an attempt, and those that wait none but that of
// the one that tries, after pauses that become longer. All go on when that one is acknowledged.
func TestABrokerThatAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, hung)
		r.deliver(attempts(0, inFlight)...)
		<-time.After(time.Minute)
		synctest.Wait()
		for i := range inFlight {
			if one, ok := r.report(i); !ok || !strings.HasPrefix(one.Message, "timeout: ") || r.handedBack(i) != 0 {
				t.Errorf("%d: %+v, handed back %d times", i, one.Result, r.handedBack(i))
			}
		}
		next := inFlight
		for pause := firstPause; next < inFlight+7; pause, next = min(2*pause, lastPause), next+1 {
			c := r.hub.Look(inQueue)
			if time.Until(c.PausedUntil) != pause || c.PausedFor != "no acknowledgement within 1m" || r.room() != 0 {
				t.Fatalf("it pauses for %v, not %v: %s", time.Until(c.PausedUntil), pause, c.PausedFor)
			}
			<-time.After(pause)
			synctest.Wait()
			if n := r.room(); n != 1 {
				t.Fatalf("after the pause there is room for %d", n)
			}
			r.deliver(attempt(next))
			synctest.Wait()
			if c := r.hub.Look(inQueue); c.Credits != 0 || c.TriesFor != "no acknowledgement within 1m" {
				t.Fatalf("while one tries: %+v", c)
			}
			<-time.After(time.Minute)
			synctest.Wait()
			if _, ok := r.report(next); !ok {
				t.Fatal("the one that tried has not failed")
			}
		}
		r.client().does(all(nil))
		<-time.After(lastPause)
		synctest.Wait()
		r.deliver(attempt(next))
		synctest.Wait()
		if c := r.hub.Look(inQueue); r.room() != inFlight || c.TriesFor != "" {
			t.Errorf("it acknowledges, and there is room for %d: %+v", r.room(), c)
		}
		r.close()
	})
}

// TestWhatLeftBeforeDoesNotTry: messages whose time is longer than that of the first keep none from trying,
// make no pause longer, and count again when they have ended.
func TestWhatLeftBeforeDoesNotTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, hung)
		r.deliver(each(time.Second, attempt(0))...)
		r.deliver(each(time.Hour, attempts(1, 2)...)...)
		r.deliver(each(4*time.Second, attempts(3, 2)...)...)
		<-time.After(time.Second + firstPause)
		synctest.Wait()
		if n := r.room(); n != 1 {
			t.Fatalf("there is room for %d while others are under way", n)
		}
		<-time.After(2 * time.Second) // those of 4 s fail
		synctest.Wait()
		if _, ok := r.report(4); !ok || r.room() != 1 || r.hub.Look(inQueue).PausedUntil.After(time.Now()) {
			t.Fatalf("there is room for %d after others have failed", r.room())
		}
		r.client().does(all(nil))
		r.deliver(attempt(5))
		synctest.Wait()
		if n := r.room(); n != inFlight-2 {
			t.Errorf("2 are under way, and there is room for %d", n)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if n := r.room(); n != inFlight {
			t.Errorf("there is room for %d in the end", n)
		}
		r.close()
	})
}

// TestABrokerThatIsSlow acknowledges some in time, and does not pause: so an exchange goes on of whose queues
// one is hung.
func TestABrokerThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, hung)
		r.deliver(attempt(0))
		<-time.After(time.Minute / 2)
		synctest.Wait()
		r.client().does(all(nil))
		r.deliver(attempt(1))
		<-time.After(time.Minute / 2)
		synctest.Wait()
		if _, ok := r.report(0); !ok || r.room() != inFlight {
			t.Errorf("there is room for %d", r.room())
		}
		r.close()
	})
}

// TestAShortTimeoutSaysNothing of the broker: a job that leaves it no time would keep the others waiting.
func TestAShortTimeoutSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, hung)
		r.deliver(each(leastSilence-1, attempt(0))...)
		<-time.After(leastSilence)
		synctest.Wait()
		if _, ok := r.report(0); !ok || r.room() != inFlight || !r.hub.Look(inQueue).PausedUntil.IsZero() {
			t.Errorf("there is room for %d", r.room())
		}
		r.close()
	})
}

// TestWhatWaitsBehindASilentMessage is handed back, with however little time it has left: the client sends one
// batch at a time.
func TestWhatWaitsBehindASilentMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := 0
		r := newRig(t, Options{}, func(ctx context.Context, ms []broker.Message, done func(int, error)) {
			mu.Lock()
			sent += len(ms)
			mu.Unlock()
			<-ctx.Done()
			for i := range ms {
				done(i, ctx.Err())
			}
		})
		for i := range inFlight {
			r.deliver(attempt(i))
			<-time.After(time.Second)
			synctest.Wait()
		}
		<-time.After(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if one, ok := r.report(0); !ok || one.Outcome != carillon.OutcomeFailure || sent != 1 {
			t.Errorf("%d sent; the first: %+v", sent, one.Result)
		}
		for i := 1; i < inFlight; i++ {
			if _, ok := r.report(i); ok || r.handedBack(i) != 1 {
				t.Errorf("%d: reported %v, handed back %d times", i, ok, r.handedBack(i))
			}
		}
		r.close()
	})
}
