package dispatch

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func sidecar(t testing.TB, h *Hub, credits int, gates []Gate, addresses ...string) *fakeWorker {
	t.Helper()
	c := &fakeWorker{}
	c.registration = h.Register(context.Background(), c, "dapr",
		carillon.Hello{Namespace: "n", Queues: addresses, WorkerID: "w"})
	c.registration.Gates, c.registration.Credits = gates, credits
	if err := c.registration.Join(); err != nil {
		t.Fatal(err)
	}
	return c
}

// keyed is deliveries of partition 1 with keys, numbered from seq on.
func keyed(seq int, keys ...string) []delivery.Delivery {
	ds := runsOf(1, gatedQueue, seq, len(keys))
	for i, key := range keys {
		ds[i].Key = key
	}
	return ds
}

// numbers is which of keyed(0, …) the tokens are of.
func numbers(tokens []string) []int {
	var all []int
	for _, token := range tokens {
		for n := range 100 {
			if runOf(1, gatedQueue, n).Run.Token == token {
				all = append(all, n)
			}
		}
	}
	return all
}

func expect(t *testing.T, what string, got []string, want ...int) {
	t.Helper()
	if n := numbers(got); !slices.Equal(n, want) {
		t.Fatalf("%s: %v, not %v", what, n, want)
	}
}

func TestGateOfKey(t *testing.T) {
	h, l := hub(Options{})
	a := sidecar(t, h, 100, []Gate{{gatedQueue, "k", 1}}, gatedQueue.Address)
	take(h, 1, gatedQueue, 6, delivery.Head{})
	h.Deliver(1, keyed(0, "k", "k", "", "k", "other", "k"), nil)
	expect(t, "what is not limited goes by", a.got, 0, 2, 4)
	if st := h.Gates(); !reflect.DeepEqual(st, []GateStats{{Gate{gatedQueue, "k", 1}, 1, 3, 3}}) {
		t.Fatalf("%+v", st)
	}
	if st := h.Queues()[0]; st.InFlight != 3 || st.Held != 3 {
		t.Fatalf("%+v", st)
	}
	a.registration.Subscriptions[0].Done("k", 1, 1)
	expect(t, "in order", a.got, 0, 2, 4, 1)
	h.Cancel([]delivery.Cancel{{Queue: gatedQueue, Token: keyed(3, "k")[0].Run.Token}})
	a.registration.Subscriptions[0].Done("k", 1, 1)
	expect(t, "past one that was cancelled", a.got, 0, 2, 4, 1, 5)
	if len(l.undelivered) > 0 || len(a.cancels) > 0 {
		t.Fatalf("undelivered %v, cancelled %v", l.undelivered, a.cancels)
	}
}

func TestGateOfQueue(t *testing.T) {
	h, l := hub(Options{})
	gates := []Gate{{gatedQueue, "", 2}, {gatedQueue, "k", 1}}
	a := sidecar(t, h, 100, gates, gatedQueue.Address)
	if n, ok := take(h, 1, gatedQueue, 5, delivery.Head{}); n != 2 || !ok {
		t.Fatalf("%d slots, served %v", n, ok)
	}
	h.Deliver(1, keyed(0, "k", "k"), nil)
	expect(t, "the key's limit is less", a.got, 0)
	if given := l.take(); len(given) != 1 || given[0].n != 1 {
		t.Fatalf("the place of what is held is another's: %v", given)
	}
	if n, _ := take(h, 1, gatedQueue, 2, delivery.Head{}); n != 0 {
		t.Fatalf("%d slots", n)
	}
	h.Deliver(1, keyed(2, ""), nil)
	a.registration.Subscriptions[0].Done("k", 1, 1)
	expect(t, "what was held goes before what waits", a.got, 0, 2, 1)
	want := []GateStats{{Gate: gates[0], InFlight: 2, Pending: 2, Throttled: 3},
		{Gate: gates[1], InFlight: 1, Throttled: 1}}
	if st := h.Gates(); !reflect.DeepEqual(st, want) {
		t.Fatalf("%+v", st)
	}
	a.registration.Subscriptions[0].Done("", 1, 1)
	if given := l.take(); len(given) != 1 {
		t.Fatalf("nobody was woken: %v", given)
	}
}

// TestGateHoldsNotForEver: a delivery goes back before its timeout, which runs while it is held, has half
// passed.
func TestGateHoldsNotForEver(t *testing.T) {
	for timeout, most := range map[time.Duration]time.Duration{24 * time.Hour: time.Hour,
		20 * time.Minute: 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			h, l := hub(Options{})
			a := sidecar(t, h, 100, []Gate{{gatedQueue, "k", 1}}, gatedQueue.Address)
			take(h, 1, gatedQueue, 4, delivery.Head{})
			ds := keyed(0, "k", "k", "k", "k")
			for i := range ds {
				ds[i].Timeout = timeout
			}
			back := func(what string, want ...int) {
				synctest.Wait()
				l.mu.Lock()
				defer l.mu.Unlock()
				expect(t, what, l.undelivered, want...)
			}
			h.Deliver(1, ds[:3], nil)
			<-time.After(most / 2)
			h.Deliver(1, ds[3:], nil)
			<-time.After(most/2 - time.Second)
			back("not yet")
			<-time.After(time.Second)
			back("in order", 1, 2)
			<-time.After(most / 2)
			back("and those that came later", 1, 2, 3)
			expect(t, "who is at a sidecar stays there", a.got, 0)
			h.mu.Lock()
			defer h.mu.Unlock()
			if q := h.queues[gatedQueue]; q.checkGates() != nil || q.check() != nil || len(q.held) > 0 {
				t.Fatalf("%d are held, %v, %v", len(q.held), q.checkGates(), q.check())
			}
		})
	}
}

// TestGateComesAndGoes has a gate named by one that takes nothing itself, changed by a newer word, and lifted
// by the last.
func TestGateComesAndGoes(t *testing.T) {
	h, l := hub(Options{})
	namer := sidecar(t, h, 0, []Gate{{gatedQueue, "k", 1}})
	if n, ok := take(h, 1, gatedQueue, 1, delivery.Head{}); n != 0 || ok {
		t.Fatal("nobody serves the queue")
	}
	a := sidecar(t, h, 100, nil, gatedQueue.Address)
	if len(l.consumers) != 1 {
		t.Fatalf("the first consumer was not told of: %v", l.consumers)
	}
	take(h, 1, gatedQueue, 6, delivery.Head{})
	h.Deliver(1, keyed(0, "k", "k", "k", "k", "k", "k"), nil)
	newer := sidecar(t, h, 0, []Gate{{gatedQueue, "k", 3}})
	expect(t, "the newest word counts", a.got, 0, 1, 2)
	newer.registration.Leave()
	if st := h.Gates(); len(st) != 1 || st[0].Most != 3 {
		t.Fatalf("%+v", st)
	}
	namer.registration.Leave()
	expect(t, "nobody limits it any more", a.got, 0, 1, 2, 3, 4, 5)
	a.registration.Leave()
	if len(h.Gates()) != 0 || len(h.queues) != 0 {
		t.Fatalf("%v and %v are left", h.Gates(), h.queues)
	}
}

func TestHeldIsHandedBack(t *testing.T) {
	ends := map[string]func(h *Hub, c *fakeWorker){
		"the last consumer leaves": func(_ *Hub, c *fakeWorker) { c.registration.Leave() },
		"drain":                    func(h *Hub, _ *fakeWorker) { _ = h.Drain(context.Background()) },
		"close":                    func(h *Hub, _ *fakeWorker) { _ = h.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			h, l := hub(Options{})
			namer := sidecar(t, h, 0, []Gate{{gatedQueue, "k", 1}})
			a := sidecar(t, h, 100, nil, gatedQueue.Address)
			take(h, 1, gatedQueue, 4, delivery.Head{})
			h.Deliver(1, keyed(0, "k", "k", "k", "k"), nil)
			end(h, a)
			expect(t, "in order", l.undelivered, 1, 2, 3)
			a.registration.Leave()
			namer.registration.Leave()
			if len(h.queues) != 0 {
				t.Fatal("something is left")
			}
		})
	}
}

// TestTooMuchHeld fills what may be held: from there on partitions wait, and each that goes on makes room for
// one.
func TestTooMuchHeld(t *testing.T) {
	h, l := hub(Options{})
	a := sidecar(t, h, 2*MaxHeld, []Gate{{gatedQueue, "k", 1}}, gatedQueue.Address)
	n, _ := take(h, 1, gatedQueue, MaxHeld+11, delivery.Head{})
	ds := runsOf(1, gatedQueue, 0, n)
	for i := range ds {
		ds[i].Key = "k"
	}
	h.Deliver(1, ds, nil)
	if len(l.undelivered) != 10 || len(a.got) != 1 {
		t.Fatalf("%d delivered, %d handed back", len(a.got), len(l.undelivered))
	}
	if n, ok := take(h, 1, gatedQueue, 10, delivery.Head{}); n != 0 || !ok {
		t.Fatalf("%d more would be handed back for ever", n)
	}
	a.registration.Subscriptions[0].Done("k", 1, 1)
	if given := l.take(); len(given) != 1 || given[0].n != 1 {
		t.Fatalf("slots for one that has gone on: %v", given)
	}
}

func TestTooManyBytesHeld(t *testing.T) {
	h, l := hub(Options{})
	sidecar(t, h, 100, []Gate{{gatedQueue, "k", 1}}, gatedQueue.Address)
	take(h, 1, gatedQueue, 5, delivery.Head{})
	ds := keyed(0, "k", "k", "k", "k", "k")
	for i := range ds {
		ds[i].Run.Data.Bytes = make([]byte, MaxHeldBytes)
	}
	h.Deliver(1, ds, nil)
	expect(t, "beyond twice the bytes", l.undelivered, 3, 4)
	if n, _ := take(h, 1, gatedQueue, 1, delivery.Head{}); n != 0 {
		t.Fatal("more could be held")
	}
}

// BenchmarkGate delivers runs behind a gate of a key and ends them.
func BenchmarkGate(b *testing.B) {
	h, _ := hub(Options{})
	a := sidecar(b, h, 100, []Gate{{gatedQueue, "k", 1}}, gatedQueue.Address)
	ds := keyed(0, "k", "k")
	b.ReportAllocs()
	for b.Loop() {
		take(h, 1, gatedQueue, 2, delivery.Head{})
		h.Deliver(1, ds, nil)
		a.registration.Subscriptions[0].Done("k", 1, 1)
		a.registration.Subscriptions[0].Done("k", 1, 1)
		a.got = a.got[:0]
	}
}
