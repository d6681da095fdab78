package dispatch

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestTake(t *testing.T) {
	h, l := hub(Options{})
	q := named("q")
	if n, ok := take(h, 1, q, 5, delivery.Head{}); n != 0 || ok {
		t.Fatalf("nobody serves q, got %d %v", n, ok)
	}
	c := join(t, h, "q")
	if len(l.consumers) != 1 || l.consumers[0] != q {
		t.Fatalf("first consumer not told: %v", l.consumers)
	}
	join(t, h, "q")
	if len(l.consumers) != 1 {
		t.Fatal("second consumer told as first")
	}
	c.registration.Subscriptions[0].Grant(3)
	if n, ok := take(h, 1, q, 2, delivery.Head{}); n != 2 || !ok {
		t.Fatalf("got %d %v", n, ok)
	}
	if n, _ := take(h, 2, q, 5, delivery.Head{}); n != 1 {
		t.Fatalf("one slot is left, got %d", n)
	}
	h.Deliver(1, runsOf(1, q, 1, 2), nil)
	h.Deliver(2, runsOf(2, q, 1, 1), nil)
	if len(c.got) != 3 || len(l.undelivered) != 0 {
		t.Fatalf("got %v, undelivered %v", c.got, l.undelivered)
	}
	if st := h.Queues(); len(st) != 1 || st[0] != (QueueStats{Queue: q, Consumers: 2, InFlight: 3, Waiting: 1}) {
		t.Fatalf("%+v", st)
	}
	if w := h.Workers(); len(w) != 2 || w[0].InFlight != 3 || w[0].ID != "w" {
		t.Fatalf("%+v", w)
	}
}

func TestBestHeadFirstInChunks(t *testing.T) {
	h, l := hub(Options{Chunk: 2})
	q, c := named("q"), join(t, h, "q")
	take(h, 1, q, 9, delivery.Head{Priority: 2, Due: 1})
	take(h, 2, q, 9, delivery.Head{Priority: 1, Due: 7})
	take(h, 3, q, 9, delivery.Head{Priority: 1, Due: 5})
	take(h, 4, q, 9, delivery.Head{Priority: 1, Due: 5})
	c.registration.Subscriptions[0].Grant(7)
	if want := []slots{slotsOf(3, q, 2), slotsOf(4, q, 2), slotsOf(2, q, 2),
		slotsOf(1, q, 1)}; !reflect.DeepEqual(l.take(), want) {
		t.Fatal("wrong order")
	}
}

func TestGivingBack(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(4)
	take(h, 1, q, 3, delivery.Head{})
	take(h, 2, q, 3, delivery.Head{})
	take(h, 1, q, 0, delivery.Head{}) // what was taken stays taken
	if given := l.take(); len(given) != 0 {
		t.Fatalf("slots in use went to %v", given)
	}
	giveBack(h, 1, q, 3)
	if given := l.take(); len(given) != 1 || given[0] != slotsOf(2, q, 2) {
		t.Fatalf("what was given back went to %v", given)
	}
	giveBack(h, 2, q, 1)
	if n, _ := take(h, 3, q, 9, delivery.Head{}); n != 2 {
		t.Fatalf("the rest is free, got %d", n)
	}
	h.Forget(3)
	h.Forget(2)
	if n, _ := take(h, 1, q, 9, delivery.Head{}); n != 4 {
		t.Fatalf("partitions that left keep slots: got %d", n)
	}
}

// TestUntaken delivers without a slot while the only credit is another partition's.
func TestUntaken(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(1)
	take(h, 1, q, 1, delivery.Head{})
	h.Deliver(2, runsOf(2, q, 1, 1), nil)
	h.Deliver(1, runsOf(1, q, 1, 1), nil)
	if want := runOf(1, q, 1).Run.Token; len(c.got) != 1 || c.got[0] != want || len(l.undelivered) != 1 {
		t.Fatalf("got %v, undelivered %v", c.got, l.undelivered)
	}
	c.registration.Subscriptions[0].Grant(1)
	h.Deliver(2, runsOf(2, q, 2, 1), nil)
	if len(c.got) != 2 {
		t.Fatal("a free slot was not used")
	}
}

// TestSeveralQueuesAreOfferedAtOnce: each queue of a round is answered for itself.
func TestSeveralQueuesAreOfferedAtOnce(t *testing.T) {
	h, _ := hub(Options{})
	join(t, h, "a").registration.Subscriptions[0].Grant(3)
	join(t, h, "b")
	ws := []delivery.Waiting{{Queue: named("none"), Now: 1}, {Queue: named("a"), Now: 2},
		{Queue: named("b"), Now: 5}, {Queue: named("c")}}
	h.Offer(delivery.Owner{Partition: 1}, ws)
	for i, want := range []delivery.Slots{{}, {N: 2, Served: true}, {Served: true}, {}} {
		if ws[i].Slots != want {
			t.Errorf("queue %s: %+v, not %+v", ws[i].Queue.Address, ws[i].Slots, want)
		}
	}
	if st := h.Queues(); len(st) != 2 || st[0].Waiting != 0 || st[1].Waiting != 1 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkHandOut measures what a partition's round costs here for one queue: it is offered slots and
// delivers. The consumer has credits before the runs are due, or grants them afterwards.
func BenchmarkHandOut(b *testing.B) {
	for _, waits := range []bool{false, true} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("waits=%v/runs=%d", waits, n), func(b *testing.B) {
				h := New(&ignoringSink{}, Options{})
				q, c := named("q"), &ignoringWorker{}
				r := h.Register(context.Background(), c, "worker", helloFor("q"))
				if err := r.Join(); err != nil {
					b.Fatal(err)
				}
				s := r.Subscriptions[0]
				runs := runsOf(1, q, 1, n)
				b.ReportAllocs()
				for b.Loop() {
					if waits {
						offer(h, 1, q, n, delivery.Head{})
					}
					s.Grant(n)
					if !waits { // otherwise they came by Sink.Slots
						if got := offer(h, 1, q, n, delivery.Head{}).N; got != n {
							b.Fatalf("took %d", got)
						}
					}
					h.Deliver(1, runs, []delivery.Rest{{Queue: q}})
					s.Done(n, 0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/run")
			})
		}
	}
}

// ignoringSink and ignoringWorker take what they are given.
type ignoringSink struct{ fakeSink }

func (*ignoringSink) Slots(delivery.Owner, delivery.Queue, int) {}
func (*ignoringSink) Consumers(delivery.Queue)                  {}
func (*ignoringSink) Undelivered([]string)                      {}

type ignoringWorker struct{ fakeWorker }

func (*ignoringWorker) Deliver([]delivery.Delivery) bool { return true }
