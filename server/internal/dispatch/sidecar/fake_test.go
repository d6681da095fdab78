package sidecar

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// fakeSink is an engine of one partition that delivers what it is told to and remembers what it hears.
type fakeSink struct {
	hub    *dispatch.Hub
	limits named

	mu          sync.Mutex
	reports     []delivery.Report
	undelivered []string
	slots       int // that came while it waited
}

func newFakeSink() *fakeSink {
	d := &fakeSink{}
	d.hub = dispatch.New(d, dispatch.Options{})
	return d
}

func (d *fakeSink) Reports(rs []delivery.Report) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, rs...)
}

func (d *fakeSink) Undelivered(tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undelivered = append(d.undelivered, tokens...)
}

func (d *fakeSink) Slots(_ delivery.Owner, _ delivery.Queue, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slots += n
}

func (d *fakeSink) Consumers(delivery.Queue)                           {}
func (d *fakeSink) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}
func (d *fakeSink) Lost([]string)                                      {}

// handedBack forgets and returns what came back undelivered.
func (d *fakeSink) handedBack() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	tokens := d.undelivered
	d.undelivered = nil
	return tokens
}

// named is the limits in force, of which each is named by one stream.
type named struct {
	mu      sync.Mutex
	err     error
	inForce []delivery.NamedLimit
	ended   func() // called before a stream's end; nil: nothing
}

func (n *named) NameLimits(limits []delivery.NamedLimit) (end func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	n.inForce = append(n.inForce, limits...)
	return func() {
		if n.ended != nil {
			n.ended()
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, l := range limits {
			i := slices.Index(n.inForce, l)
			n.inForce = slices.Delete(n.inForce, i, i+1) // it panics if a stream ends twice
		}
	}, nil
}

func queueOf(target *carillon.DaprTarget) delivery.Queue {
	return delivery.QueueOf("n", carillon.Target{Dapr: target})
}

var app = &carillon.DaprTarget{AppID: "app"}

func token(i int) string { return fmt.Sprintf("token-%05d", i) }

// runs is deliveries [from, to) for a target.
func runs(target *carillon.DaprTarget, from, to, payload int) []delivery.Delivery {
	ds := make([]delivery.Delivery, 0, to-from)
	for i := from; i < to; i++ {
		ds = append(ds, delivery.Delivery{Queue: queueOf(target),
			Target: carillon.Target{Dapr: target},
			Run: &carillon.Run{ID: store.RunID{Seq: uint64(i)}.String(), Token: token(i),
				Data: carillon.Bytes(make([]byte, payload), "")}})
	}
	return ds
}

// deliver takes slots for runs [from, to) and uses them.
func (d *fakeSink) deliver(t testing.TB, target *carillon.DaprTarget, from, to, payload int) {
	t.Helper()
	if n := offer(d.hub, 0, queueOf(target), to-from, delivery.Head{}).N; n != to-from {
		t.Fatalf("took %d of %d", n, to-from)
	}
	d.hub.Deliver(0, runs(target, from, to, payload), nil)
}

func (d *fakeSink) open(t testing.TB, hello Hello, o Options) *Session {
	t.Helper()
	hello.Namespace = "n"
	if hello.AppID == "" {
		hello.AppID = "app"
	}
	s, err := Open(d.hub, &d.limits, hello, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func receive(t testing.TB, s *Session) []Delivery {
	t.Helper()
	ds, err := s.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func result(t testing.TB, s *Session, id uint64, ok bool, message string) {
	t.Helper()
	if err := s.Result(id, ok, message); err != nil {
		t.Fatal(err)
	}
}

// tokens is those of [from, to).
func tokens(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, token(i))
	}
	return all
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// offer asks for slots of one queue.
func offer(h *dispatch.Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
