package brokertarget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// TestARunThatIsAwaited goes on after the acknowledgement, and its slot is free then. The broker has the time of
// any other run to acknowledge it, however long the consumer may take.
func TestARunThatIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{}, all(nil))
		d := attempt(0)
		d.Target.NATS.AwaitCompletion, d.Timeout = true, 24*time.Hour
		r.deliver(d)
		synctest.Wait()
		one, ok := r.report(0)
		if !ok || !one.Async || one.Outcome != carillon.OutcomeSuccess || r.room() != inFlight {
			t.Errorf("%+v, room for %d", one, r.room())
		}
		r.client().does(func(ctx context.Context, ms []broker.Message, done func(int, error)) {
			<-ctx.Done()
			done(0, ctx.Err())
		})
		began := time.Now()
		d = attempt(1)
		d.Target.NATS.AwaitCompletion, d.Timeout = true, 24*time.Hour
		r.deliver(d)
		<-time.After(DefaultTimeout)
		synctest.Wait()
		one, ok = r.report(1)
		if !ok || !one.Async || one.Message == "" || one.Outcome != carillon.OutcomeFailure || time.Since(began) > DefaultTimeout {
			t.Errorf("%+v", one)
		}
		r.close()
	})
}

// TestAMessageSaysThatItIsAwaited, and others do not.
func TestAMessageSaysThatItIsAwaited(t *testing.T) {
	for _, await := range []bool{true, false} {
		d := attempt(0)
		d.Target.NATS.AwaitCompletion = await
		said := false
		for _, h := range newMessage(&d, nil).Headers {
			said = said || h == broker.Header{Name: "carillon-await-completion", Value: "true"}
		}
		if said != await {
			t.Errorf("%v: %v", await, said)
		}
	}
}
