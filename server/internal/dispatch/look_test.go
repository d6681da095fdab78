package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// pausingHost is a host that has asked for fewer requests.
type pausingHost struct {
	fakeHost
	until time.Time
}

func (p *pausingHost) PausedUntil() time.Time { return p.until }

type pausingTransport struct{ host *pausingHost }

func (t pausingTransport) Open(_ delivery.Queue, s *Subscription) (Consumer, int) {
	t.host.subscription = s
	return t.host, 2
}

func (pausingTransport) Drain(context.Context) error { return nil }
func (pausingTransport) Close() error                { return nil }

func TestALookAtAQueueSaysWhoTakesItsRuns(t *testing.T) {
	now := time.Unix(1000, 0)
	h, _ := hub(Options{Now: func() time.Time { return now }})
	if c := h.Look(named("q")); c.N != 0 || !c.Left.IsZero() || c.Leaving {
		t.Errorf("nobody has ever come: %+v", c)
	}
	a, b := join(t, h, "q").registration, join(t, h, "q").registration
	a.Subscriptions[0].Grant(2)
	take(h, 1, named("q"), 1, delivery.Head{})
	h.Deliver(1, runsOf(1, named("q"), 1, 1), nil)
	b.Silence(func() bool { return true })
	if c := h.Look(named("q")); c.N != 2 || c.Silent != 1 || c.Credits != 1 || c.InFlight != 1 || c.Bound != 0 {
		t.Errorf("%+v", c)
	}
	a.Leave()
	now = now.Add(time.Minute)
	b.Leave()
	if c := h.Look(named("q")); c.N != 0 || !c.Left.Equal(now) {
		t.Errorf("both have left: %+v", c)
	}
	join(t, h, "q").registration.Leave()
	now = now.Add(time.Minute)
	join(t, h, "q")
	if c := h.Look(named("q")); c.N != 1 || !c.Left.IsZero() {
		t.Errorf("another has come: %+v", c)
	}
	h.stop()
	if c := h.Look(named("q")); !c.Leaving {
		t.Errorf("the node leaves: %+v", c)
	}
}

func TestALookAtAHostSaysThatItPauses(t *testing.T) {
	host := &pausingHost{until: time.Unix(2000, 0)}
	h, _ := hub(Options{Transports: map[string]Transport{"http": pausingTransport{host}}})
	name := delivery.Queue{Namespace: "n", Kind: "http", Address: "x:80"}
	offer(h, 1, name, 1, delivery.Head{})
	if c := h.Look(name); c.N != 1 || c.Credits != 1 || !c.PausedUntil.IsZero() {
		t.Errorf("it does not pause: %+v", c)
	}
	host.subscription.Hold(func() bool { return true })
	if c := h.Look(name); !c.PausedUntil.Equal(host.until) || c.Credits != 0 {
		t.Errorf("it pauses: %+v", c)
	}
}

func TestALookSaysThatTheNodeHasJustStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{SlowStart: SlowStart{Initial: 2, Step: time.Minute}})
		join(t, h, "q").registration.Subscriptions[0].Grant(10)
		take(h, 1, named("q"), 5, delivery.Head{Due: time.Now().Add(-time.Hour).UnixNano()})
		if c := h.Look(named("q")); c.Bound != 2 || c.Bounded != 2 || c.Credits != 8 {
			t.Errorf("%+v", c)
		}
		h.stop()
	})
}

func TestDeparturesAreBounded(t *testing.T) {
	d, first := departures{}, time.Unix(0, 0)
	for i := range 2 * mostDepartures {
		d.note(named(fmt.Sprint("q", i)), first.Add(time.Duration(i)))
	}
	if _, newest := d[named(fmt.Sprint("q", 2*mostDepartures-1))]; len(d) != mostDepartures || !newest {
		t.Errorf("%d are remembered, the newest is: %v", len(d), newest)
	}
}
