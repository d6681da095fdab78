package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func always() bool { return true }

func TestASilentConsumerGetsNothing(t *testing.T) {
	h, l := hub(Options{})
	q, quiet, other := named("q"), join(t, h, "q"), join(t, h, "q")
	quiet.registration.Subscriptions[0].Grant(5)
	other.registration.Subscriptions[0].Grant(1)
	quiet.registration.Silence(always)
	if n, served := take(h, 1, q, 3, delivery.Head{}); n != 1 || !served {
		t.Fatalf("took %d, served %v: the silent one's credits count", n, served)
	}
	h.Deliver(1, runsOf(1, q, 1, 1), nil)
	quiet.registration.Subscriptions[0].Grant(1) // credits that come meanwhile are kept
	if len(quiet.got) != 0 || len(other.got) != 1 {
		t.Fatalf("silent %v, other %v", quiet.got, other.got)
	}
	quiet.registration.Heard()
	if given := l.take(); len(given) != 1 || given[0] != slotsOf(1, q, 2) {
		t.Fatalf("the partition that waited was given %v", given)
	}
	if n, _ := take(h, 1, q, 9, delivery.Head{}); n != 4 {
		t.Fatalf("took %d after a word", n)
	}
}

func TestSilentConsumersAloneServeNobody(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	take(h, 1, q, 3, delivery.Head{})
	c.registration.Subscriptions[0].Grant(1)
	c.registration.Silence(always)
	l.take()
	if n, served := take(h, 1, q, 3, delivery.Head{}); n != 0 || served {
		t.Fatalf("took %d, served %v", n, served)
	}
	l.consumers = nil
	c.registration.Heard()
	if !slices.Contains(l.consumers, q) {
		t.Fatal("nobody was told that there is a consumer again")
	}
	l.consumers = nil
	c.registration.Silence(always)
	if join(t, h, "q"); !slices.Contains(l.consumers, q) {
		t.Fatal("nobody was told of the first one that is not silent")
	}
}

func TestAWordBeforeTheSilenceCounts(t *testing.T) {
	h, _ := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(1)
	c.registration.Silence(func() bool { return false })
	if n, served := take(h, 1, q, 1, delivery.Head{}); n != 1 || !served {
		t.Fatalf("took %d, served %v", n, served)
	}
}

func TestAskedConsumersComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{})
		q := named("q")
		quiet, a, b, awake := join(t, h, "q"), join(t, h, "q"), join(t, h, "q"), join(t, h, "q")
		for _, c := range []*fakeWorker{quiet, a, b, awake} {
			c.registration.Subscriptions[0].Grant(4)
		}
		quiet.registration.Silence(always)
		if a.pings != 1 || b.pings != 1 || awake.pings != 1 || quiet.pings != 0 {
			t.Fatalf("pings: %d %d %d, and %d of the silent one", a.pings, b.pings, awake.pings, quiet.pings)
		}
		awake.registration.Heard()
		take(h, 1, q, 8, delivery.Head{})
		h.Deliver(1, runsOf(1, q, 1, 8), nil)
		if len(awake.got) != 4 || len(a.got) != 2 || len(b.got) != 2 {
			t.Fatalf("%d to the one that answered, %d and %d to the others", len(awake.got), len(a.got), len(b.got))
		}
		a.registration.Silence(always) // within a second nobody is asked again
		if awake.pings != 1 {
			t.Fatalf("%d pings", awake.pings)
		}
		pass(pingAgain)
		awake.registration.Subscriptions[0].Grant(1)
		b.registration.Silence(always)
		if awake.pings != 2 {
			t.Fatalf("%d pings", awake.pings)
		}
	})
}

func TestOnlyUnheardAttemptsAreSaidToBe(t *testing.T) {
	h, _ := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	h.Cancel([]delivery.Cancel{{Queue: q, Token: "cancelled"}, {Queue: q, Token: "ended", Unheard: true}})
	if !slices.Equal(c.unheard, []string{"ended"}) {
		t.Fatalf("unheard: %v", c.unheard)
	}
}
