package dispatch

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestAPausedQueueGivesNothing: who waits is told that nobody takes anything, what comes in slots of before
// is handed back, and the consumer keeps its credits. After the pause partitions look again.
func TestAPausedQueueGivesNothing(t *testing.T) {
	h, l := hub(Options{})
	q, other := named("q"), named("other")
	c := join(t, h, "q", "other")
	for _, s := range c.registration.Subscriptions {
		s.Grant(3)
	}
	if n, _ := take(h, 1, q, 2, delivery.Head{}); n != 2 {
		t.Fatalf("got %d", n)
	}
	take(h, 2, q, 5, delivery.Head{}) // has 1, waits for 4
	h.SetPaused([]delivery.Queue{q})
	if given := l.take(); len(given) != 1 || given[0] != slotsOf(2, q, 0) {
		t.Fatalf("who waits is told %v", given)
	}
	ds := runsOf(1, q, 1, 2)
	h.Deliver(1, ds, []delivery.Rest{{Queue: q, N: 7}})
	h.Deliver(2, nil, []delivery.Rest{{Queue: q, Unused: 1, N: 4}})
	if want := []string{ds[0].Run.Token, ds[1].Run.Token}; len(c.got) > 0 || !slices.Equal(l.undelivered, want) {
		t.Fatalf("%v was delivered, %v handed back", c.got, l.undelivered)
	}
	if n, served := take(h, 1, q, 5, delivery.Head{}); n > 0 || served {
		t.Fatalf("%d slots while it is paused, served: %v", n, served)
	}
	if st := h.Queues(); st[1] != (QueueStats{Queue: q, Consumers: 1, Credits: 3, Paused: true}) {
		t.Errorf("%+v", st[1])
	}
	if n := c.registration.Subscriptions[0].TakeBack(1); n != 1 {
		t.Errorf("%d credits are taken back", n)
	}
	if n, _ := take(h, 1, other, 1, delivery.Head{}); n != 1 {
		t.Error("another queue gives nothing")
	}
	l.consumers = nil
	h.SetPaused(nil)
	if !slices.Equal(l.consumers, []delivery.Queue{q}) {
		t.Fatalf("told of %v", l.consumers)
	}
	if n, served := take(h, 1, q, 5, delivery.Head{}); n != 2 || !served {
		t.Errorf("%d slots after the pause, served: %v", n, served)
	}
}

// TestAPauseOutlastsConsumers: a queue that nobody serves when it is paused, or any more, gives nothing to
// who comes, and a transport opens none.
func TestAPauseOutlastsConsumers(t *testing.T) {
	transport := &fakeTransport{credits: 5}
	h, _ := hub(Options{Transports: map[string]Transport{"http": transport}})
	q, host := named("q"), delivery.Queue{Namespace: "n", Kind: "http", Address: "example.com"}
	h.SetPaused([]delivery.Queue{host, q})
	for range 2 {
		c := join(t, h, "q")
		c.registration.Subscriptions[0].Grant(1)
		if n, served := take(h, 1, q, 1, delivery.Head{}); n != 0 || served {
			t.Errorf("%d slots, served: %v", n, served)
		}
		c.registration.Leave()
	}
	if all := h.Queues(); !slices.Equal(all, []QueueStats{{Queue: host, Paused: true}, {Queue: q, Paused: true}}) {
		t.Errorf("%+v", all)
	}
	if n, served := take(h, 1, host, 1, delivery.Head{}); n != 0 || served || len(transport.opened) > 0 {
		t.Errorf("%d slots, served: %v", n, served)
	}
	h.SetPaused([]delivery.Queue{q})
	if n, served := take(h, 1, host, 1, delivery.Head{}); n != 1 || !served {
		t.Errorf("%d slots after the pause, served: %v", n, served)
	}
	h.SetPaused([]delivery.Queue{host, q})
	h.Deliver(1, runsOf(1, host, 1, 1), nil)
	if len(transport.opened[0].got) > 0 {
		t.Error("a paused host got a run")
	}
}

// TestAPauseDuringASlowStart: partitions that wait for room of the node learn of the pause.
func TestAPauseDuringASlowStart(t *testing.T) {
	now := time.Now()
	h, l := hub(Options{SlowStart: SlowStart{Initial: 1, Step: time.Minute}, Now: func() time.Time { return now }})
	t.Cleanup(func() { _ = h.Close() })
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(9)
	overdue := delivery.Head{Due: now.Add(-time.Hour).UnixNano()}
	if n, _ := take(h, 1, q, 5, overdue); n != 1 {
		t.Fatalf("got %d", n)
	}
	h.SetPaused([]delivery.Queue{q})
	if given := l.take(); len(given) != 1 || given[0] != slotsOf(1, q, 0) {
		t.Errorf("who waits is told %v", given)
	}
}

// slowWorker keeps a delivery for a while before it has it.
type slowWorker struct {
	*fakeWorker
	gate     chan struct{}
	withheld []delivery.Queue
}

func (w *slowWorker) Deliver(ds []delivery.Delivery) bool {
	<-w.gate
	return w.fakeWorker.Deliver(ds)
}

func (w *slowWorker) Withhold(q delivery.Queue) { w.withheld = append(w.withheld, q) }

// TestAPauseWaitsForWhatIsOnItsWay into a session, and then has the session hand back what has not left.
func TestAPauseWaitsForWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := hub(Options{})
		q := named("q")
		w := &slowWorker{fakeWorker: &fakeWorker{}, gate: make(chan struct{})}
		r := h.Register(t.Context(), w, "worker", helloFor("q"))
		r.Credits = 2
		if err := r.Join(); err != nil {
			t.Fatal(err)
		}
		take(h, 1, q, 1, delivery.Head{})
		go h.Deliver(1, runsOf(1, q, 1, 1), nil)
		synctest.Wait()
		paused := make(chan struct{})
		go func() {
			h.SetPaused([]delivery.Queue{q})
			close(paused)
		}()
		synctest.Wait()
		select {
		case <-paused:
			t.Error("it does not wait")
		default:
		}
		if len(w.withheld) > 0 {
			t.Error("a session hands back what is not there yet")
		}
		close(w.gate)
		<-paused
		if len(w.got) != 1 || !slices.Equal(w.withheld, []delivery.Queue{q}) {
			t.Errorf("%v was delivered, %v is withheld", w.got, w.withheld)
		}
	})
}

// TestAPauseIsAdvised rather than that nobody serves the queue.
func TestAPauseIsAdvised(t *testing.T) {
	h, _ := hub(Options{})
	h.SetPaused([]delivery.Queue{named("q")})
	if said := h.Advise(named("q")); !strings.Contains(said, "is paused") {
		t.Error(said)
	}
	if said := h.Advise(named("other")); strings.Contains(said, "is paused") {
		t.Error(said)
	}
}
