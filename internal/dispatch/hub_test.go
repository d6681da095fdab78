package dispatch

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

func TestTake(t *testing.T) {
	h, l := hub(Options{})
	q := named("q")
	if n, ok := take(h, 1, q, 5, partition.Head{}); n != 0 || ok {
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
	c.member.Subscriptions[0].Grant(3)
	if n, ok := take(h, 1, q, 2, partition.Head{}); n != 2 || !ok {
		t.Fatalf("got %d %v", n, ok)
	}
	if n, _ := take(h, 2, q, 5, partition.Head{}); n != 1 {
		t.Fatalf("one slot is left, got %d", n)
	}
	h.Deliver(runsOf(1, q, 1, 2))
	h.Deliver(runsOf(2, q, 1, 1))
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
	take(h, 1, q, 9, partition.Head{Priority: 2, Due: 1})
	take(h, 2, q, 9, partition.Head{Priority: 1, Due: 7})
	take(h, 3, q, 9, partition.Head{Priority: 1, Due: 5})
	take(h, 4, q, 9, partition.Head{Priority: 1, Due: 5})
	c.member.Subscriptions[0].Grant(7)
	if want := []room{{3, q}, {4, q}, {2, q}, {1, q}}; !reflect.DeepEqual(l.take(), want) {
		t.Fatal("wrong order")
	}
	for p, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 2} {
		if n, _ := take(h, p, q, 9, partition.Head{}); n != want {
			t.Errorf("partition %d got %d, not %d", p, n, want)
		}
	}
}

func TestGivingBack(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.member.Subscriptions[0].Grant(4)
	take(h, 1, q, 3, partition.Head{})
	take(h, 2, q, 3, partition.Head{})
	take(h, 1, q, 0, partition.Head{}) // what was taken stays taken
	if rooms := l.take(); len(rooms) != 0 {
		t.Fatalf("slots in use went to %v", rooms)
	}
	h.Return(1, q, 3)
	if rooms := l.take(); len(rooms) != 1 || rooms[0].p != 2 {
		t.Fatalf("what was given back went to %v", rooms)
	}
	take(h, 2, q, 1, partition.Head{}) // of two reserved
	if n, _ := take(h, 3, q, 9, partition.Head{}); n != 2 {
		t.Fatalf("the rest is free, got %d", n)
	}
	h.Forget(3)
	h.Forget(2)
	if n, _ := take(h, 1, q, 9, partition.Head{}); n != 4 {
		t.Fatalf("partitions that left keep slots: got %d", n)
	}
}

func TestLastConsumerLeaves(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.member.Subscriptions[0].Grant(1)
	take(h, 1, q, 2, partition.Head{})
	c.member.Leave()
	if rooms := l.take(); len(rooms) != 1 || rooms[0].p != 1 {
		t.Fatalf("who waited was not told: %v", rooms)
	}
	h.Deliver(runsOf(1, q, 1, 1))
	if len(l.undelivered) != 1 || len(c.got) != 0 {
		t.Fatalf("undelivered %v", l.undelivered)
	}
	if n, ok := take(h, 1, q, 2, partition.Head{}); n != 0 || ok {
		t.Fatalf("got %d %v", n, ok)
	}
	if len(h.queues) != 0 || len(h.members) != 0 {
		t.Fatal("something is left behind")
	}
}

func TestConsumerRefuses(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.member.Subscriptions[0].Grant(2)
	c.deaf = true
	take(h, 1, q, 2, partition.Head{})
	h.Deliver(runsOf(1, q, 1, 2))
	if len(l.undelivered) != 2 {
		t.Fatalf("undelivered %v", l.undelivered)
	}
}

// TestUntaken delivers without a slot while the only credit is another partition's.
func TestUntaken(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	c.member.Subscriptions[0].Grant(1)
	take(h, 1, q, 1, partition.Head{})
	h.Deliver(runsOf(2, q, 1, 1))
	h.Deliver(runsOf(1, q, 1, 1))
	if want := runOf(1, q, 1).Run.Token; len(c.got) != 1 || c.got[0] != want || len(l.undelivered) != 1 {
		t.Fatalf("got %v, undelivered %v", c.got, l.undelivered)
	}
	c.member.Subscriptions[0].Grant(1)
	h.Deliver(runsOf(2, q, 2, 1))
	if len(c.got) != 2 {
		t.Fatal("a free slot was not used")
	}
}

func TestInTurn(t *testing.T) {
	h, _ := hub(Options{})
	q := named("q")
	a, b, idle := join(t, h, "q"), join(t, h, "q", "other"), join(t, h, "q")
	a.member.Subscriptions[0].Grant(10)
	b.member.Subscriptions[0].Grant(3)
	take(h, 1, q, 8, partition.Head{})
	h.Deliver(runsOf(1, q, 1, 8))
	if len(a.got) != 5 || len(b.got) != 3 || len(idle.got) != 0 {
		t.Fatalf("%d, %d and %d", len(a.got), len(b.got), len(idle.got))
	}
	tokens := b.got
	h.Cancel([]partition.Cancel{{Queue: q, Token: tokens[1]}, {Queue: q, Token: "unknown"}, {Queue: named("none"), Token: "x"}})
	if len(b.cancels) != 1 || b.cancels[0] != tokens[1] {
		t.Fatalf("cancelled %v", b.cancels)
	}
}

func TestDebtAndHold(t *testing.T) {
	h, l := hub(Options{})
	q, c := named("q"), join(t, h, "q")
	s := c.member.Subscriptions[0]
	s.Grant(2)
	s.Grant(-5)
	take(h, 1, q, 1, partition.Head{})
	s.Grant(3)
	if len(l.take()) != 0 {
		t.Fatal("a debt was ignored")
	}
	held := true
	s.Hold(func() bool { return held })
	s.Grant(1)
	if len(l.take()) != 0 {
		t.Fatal("a hold was ignored")
	}
	held = false
	s.Hold(func() bool { return held })
	if len(l.take()) != 1 {
		t.Fatal("nobody was woken after the hold")
	}
	if s.Outstanding() != 1 {
		t.Fatalf("outstanding %d", s.Outstanding())
	}
}

func TestTransportQueueComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &hosts{credits: 2}
		h, _ := hub(Options{Transports: map[string]Transport{"http": tr}})
		q := partition.Queue{Namespace: "n", Kind: "http", Address: "h"}
		if n, ok := take(h, 1, q, 3, partition.Head{}); n != 2 || !ok {
			t.Fatalf("got %d %v", n, ok)
		}
		h.Deliver(runsOf(1, q, 1, 2))
		pass(5 * DefaultIdleQueue)
		if len(h.Queues()) != 1 {
			t.Fatal("forgotten with runs in flight")
		}
		tr.opened[0].seat.Done(2, 2)
		h.Forget(1)
		pass(5 * DefaultIdleQueue)
		if len(h.Queues()) != 0 || h.sweeper != nil {
			t.Fatal("an idle queue is kept")
		}
		take(h, 1, q, 1, partition.Head{})
		if len(tr.opened) != 2 {
			t.Fatal("the queue was not opened again")
		}
		if err := h.Close(); err != nil || !tr.closed {
			t.Fatal(err)
		}
	})
}

func TestDrain(t *testing.T) {
	tr := &hosts{credits: 1}
	h, l := hub(Options{Transports: map[string]Transport{"http": tr}})
	q, c := named("q"), join(t, h, "q")
	c.member.Subscriptions[0].Grant(5)
	take(h, 1, q, 1, partition.Head{})
	if err := h.Drain(context.Background()); err != nil || !c.drained || !tr.drained {
		t.Fatal(err, c.drained, tr.drained)
	}
	if n, ok := take(h, 2, q, 1, partition.Head{}); n != 0 || !ok {
		t.Fatalf("a leaving node gave %d %v", n, ok)
	}
	h.Deliver(runsOf(1, q, 1, 1))
	if len(l.undelivered) != 1 {
		t.Fatal("a leaving node delivered")
	}
	m := h.Register(context.Background(), &fakeWorker{}, "worker", carillon.Hello{Queues: []string{"q"}})
	if err := m.Join(); !errors.Is(err, carillon.Unavailable) {
		t.Fatalf("a leaving node took a worker: %v", err)
	}
	if err := h.Close(); err != nil || !c.closed {
		t.Fatal(err, c.closed)
	}
}

func TestConnectWithoutWorkers(t *testing.T) {
	h, _ := hub(Options{})
	if _, err := h.Connect(context.Background(), carillon.Hello{}); !errors.Is(err, carillon.FailedPrecondition) {
		t.Fatal(err)
	}
}
