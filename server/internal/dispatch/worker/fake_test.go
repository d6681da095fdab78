package worker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/store"
)

// fakeSink is an engine of one partition that delivers what it is told to and remembers what it hears.
type fakeSink struct {
	hub *dispatch.Hub

	mu          sync.Mutex
	reports     []delivery.Report
	heartbeats  []carillon.Heartbeat
	from        delivery.Reporter
	lost        []string
	undelivered []string
}

func (d *fakeSink) Reports(rs []delivery.Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, rs...)
}

func (d *fakeSink) Heartbeats(bs []carillon.Heartbeat, from delivery.Reporter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heartbeats, d.from = append(d.heartbeats, bs...), from
}

func (d *fakeSink) Slots(delivery.Owner, delivery.Queue, int) {}

func (d *fakeSink) Consumers(delivery.Queue) {}

func (d *fakeSink) Lost(tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = append(d.lost, tokens...)
}

func (d *fakeSink) Undelivered(tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undelivered = append(d.undelivered, tokens...)
}

func newFakeSink(o Options) *fakeSink {
	d := &fakeSink{}
	d.hub = dispatch.New(d, dispatch.Options{Accept: Accept(o)})
	return d
}

var ctx = context.Background()

// connect opens a session for queue q with n credits.
func (d *fakeSink) connect(t testing.TB, n int) carillon.Session {
	t.Helper()
	s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: n}}})
	return s
}

func send(t testing.TB, s carillon.Session, r carillon.WorkRequest) {
	t.Helper()
	if err := s.Send(ctx, r); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, s carillon.Session) carillon.WorkResponse {
	t.Helper()
	r, err := s.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var queue = delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}

func token(i int) string { return fmt.Sprintf("token-%03d", i) }

// deliver takes slots for runs [from, to) and uses them.
func (d *fakeSink) deliver(t testing.TB, from, to, payload int) {
	t.Helper()
	n, _ := d.take(0, queue, to-from, delivery.Head{})
	if n != to-from {
		t.Fatalf("took %d of %d", n, to-from)
	}
	var ds []delivery.Delivery
	for i := from; i < to; i++ {
		id := store.RunID{Seq: uint64(i)}.String()
		ds = append(ds, delivery.Delivery{Queue: queue, Run: &carillon.Run{ID: id, Token: token(i),
			Data: carillon.Bytes(make([]byte, payload), ""), Metadata: map[string]string{"k": "v"}}})
	}
	d.hub.Deliver(0, ds, nil)
}

func tokens(runs []carillon.Run) []string {
	var ts []string
	for i := range runs {
		ts = append(ts, runs[i].Token)
	}
	return ts
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// take takes slots as a partition does.
func (d *fakeSink) take(p int, q delivery.Queue, want int, head delivery.Head) (n int, consumers bool) {
	s := offer(d.hub, p, q, want, head)
	return s.N, s.Served
}

// acceptingSink is a sink that accepts all.
type acceptingSink struct{ fakeSink }

func (*acceptingSink) Reports(rs []delivery.Report) {
	for i := range rs {
		rs[i].From.Accepted(rs[i].Token)
	}
}

// unheard ends an attempt as its lease does.
func (d *fakeSink) unheard(i int) {
	d.hub.Cancel([]delivery.Cancel{{Queue: queue, Token: token(i), Unheard: true}})
}

// credits is how many deliveries may come now.
func (d *fakeSink) credits() int { return d.hub.Queues()[0].Credits }

// checkSlots compares the slots and credits of the queue with what they are to be.
func (d *fakeSink) checkSlots(t *testing.T, inFlight, credits int) {
	t.Helper()
	all := d.hub.Queues()
	if len(all) != 1 || all[0].InFlight != inFlight || all[0].Credits != credits {
		t.Errorf("%d in flight and %d credits are wanted: %+v", inFlight, credits, all)
	}
}

// offer asks for slots of one queue.
func offer(h *dispatch.Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
