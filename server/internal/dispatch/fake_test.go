package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// fakeSink is a sink that remembers what it was told.
type fakeSink struct {
	mu          sync.Mutex
	slots       []slots
	consumers   []delivery.Queue
	undelivered []string
}

func (l *fakeSink) Reports([]delivery.Report)                          {}
func (l *fakeSink) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}
func (l *fakeSink) Lost([]string)                                      {}

func (l *fakeSink) Slots(p delivery.Owner, q delivery.Queue, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots = append(l.slots, slots{p, q, n})
}

func (l *fakeSink) Consumers(q delivery.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.consumers = append(l.consumers, q)
}

func (l *fakeSink) Undelivered(tokens []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undelivered = append(l.undelivered, tokens...)
}

// take forgets and returns what partitions that waited were given.
func (l *fakeSink) take() []slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.slots
	l.slots = nil
	return all
}

// slotsOf is n slots of q for partition p.
func slotsOf(p int, q delivery.Queue, n int) slots {
	return slots{delivery.Owner{Partition: p}, q, n}
}

// fakeWorker is a worker that remembers what it got.
type fakeWorker struct {
	registration *Registration

	mu      sync.Mutex
	got     []string // tokens
	refuses bool     // takes no deliveries
	drained bool
	closed  bool
	cancels []string
	unheard []string
	pings   int
}

func (c *fakeWorker) Unheard(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unheard = append(c.unheard, token)
}

func (c *fakeWorker) Ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings++
}

func (c *fakeWorker) Deliver(ds []delivery.Delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses {
		return false
	}
	for i := range ds {
		c.got = append(c.got, ds[i].Run.Token)
	}
	return true
}

func (c *fakeWorker) Cancel(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.got, token) {
		c.cancels = append(c.cancels, token)
	}
}

func (c *fakeWorker) Drain()       { c.drained = true }
func (c *fakeWorker) Close() error { c.closed = true; return nil }

// hub is a hub with its sink.
func hub(o Options) (*Hub, *fakeSink) {
	l := &fakeSink{}
	return New(l, o), l
}

func join(t testing.TB, h *Hub, queues ...string) *fakeWorker {
	t.Helper()
	c := &fakeWorker{}
	c.registration = h.Register(context.Background(), c, "worker",
		carillon.Hello{Namespace: "n", Queues: queues, WorkerID: "w"})
	if err := c.registration.Join(); err != nil {
		t.Fatal(err)
	}
	return c
}

func named(address string) delivery.Queue {
	return delivery.Queue{Namespace: "n", Kind: "worker", Address: address}
}

// runOf is delivery number seq of partition p.
func runOf(p int, q delivery.Queue, seq int) delivery.Delivery {
	id := store.RunID{Partition: uint16(p), Cause: carillon.CauseTrigger, Seq: uint64(seq)}.String()
	return delivery.Delivery{Partition: p, Queue: q, Run: &carillon.Run{ID: id, Token: "token-" + id}}
}

// runsOf is n deliveries of partition p, beginning at seq.
func runsOf(p int, q delivery.Queue, seq, n int) []delivery.Delivery {
	ds := make([]delivery.Delivery, n)
	for i := range ds {
		ds[i] = runOf(p, q, seq+i)
	}
	return ds
}

// fakeTransport is a transport whose consumers begin with the same credits.
type fakeTransport struct {
	credits int
	opened  []*fakeHost
	drained bool
	closed  bool
}

type fakeHost struct {
	fakeWorker
	subscription *Subscription
}

func (t *fakeTransport) Open(_ delivery.Queue, s *Subscription) (Consumer, int) {
	h := &fakeHost{subscription: s}
	t.opened = append(t.opened, h)
	return h, t.credits
}

func (t *fakeTransport) Drain(context.Context) error { t.drained = true; return nil }
func (t *fakeTransport) Close() error                { t.closed = true; return nil }

// take takes slots as a partition does that does not mind which consumers there are.
func take(h *Hub, p int, q delivery.Queue, want int, head delivery.Head) (n int, consumers bool) {
	s := offer(h, p, q, want, head)
	return s.N, s.Served
}

// giveBack returns n slots of p, which has nothing to deliver any more.
func giveBack(h *Hub, p int, q delivery.Queue, n int) {
	h.Deliver(p, nil, []delivery.Rest{{Queue: q, Unused: n}})
}

func helloFor(queue string) carillon.Hello {
	return carillon.Hello{Namespace: "n", Queues: []string{queue}, WorkerID: "w"}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// offer asks for slots of one queue.
func offer(h *Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
