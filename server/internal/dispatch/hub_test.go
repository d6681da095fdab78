package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestTransportQueueComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fakeTransport{credits: 2}
		h, _ := hub(Options{Transports: map[string]Transport{"http": tr}})
		q := delivery.Queue{Namespace: "n", Kind: "http", Address: "h"}
		if n, ok := take(h, 1, q, 3, delivery.Head{}); n != 2 || !ok {
			t.Fatalf("got %d %v", n, ok)
		}
		h.Deliver(1, runsOf(1, q, 1, 2), nil)
		pass(5 * DefaultIdleQueue)
		if len(h.Queues()) != 1 {
			t.Fatal("forgotten with runs in flight")
		}
		tr.opened[0].subscription.Done(2, 2)
		h.Forget(1)
		pass(5 * DefaultIdleQueue)
		if len(h.Queues()) != 0 || h.sweeper != nil {
			t.Fatal("an idle queue is kept")
		}
		take(h, 1, q, 1, delivery.Head{})
		if len(tr.opened) != 2 {
			t.Fatal("the queue was not opened again")
		}
		if err := h.Close(); err != nil || !tr.closed {
			t.Fatal(err)
		}
	})
}

func TestDrain(t *testing.T) {
	tr := &fakeTransport{credits: 1}
	h, l := hub(Options{Transports: map[string]Transport{"http": tr}})
	q, c := named("q"), join(t, h, "q")
	c.registration.Subscriptions[0].Grant(5)
	take(h, 1, q, 1, delivery.Head{})
	if err := h.Drain(context.Background()); err != nil || !c.drained || !tr.drained {
		t.Fatal(err, c.drained, tr.drained)
	}
	if n, ok := take(h, 2, q, 1, delivery.Head{}); n != 0 || !ok {
		t.Fatalf("a leaving node gave %d %v", n, ok)
	}
	h.Deliver(1, runsOf(1, q, 1, 1), nil)
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
	if _, err := h.Connect(context.Background(),
		carillon.Hello{}); !errors.Is(err, carillon.FailedPrecondition) {
		t.Fatal(err)
	}
}

// racePartition is a partition with runs to deliver, driven as the engine's is.
type racePartition struct {
	p     int
	tasks chan func()
	todo  int
	seq   int
}

// round has some slots that came by mail.
func (s *racePartition) round(h *Hub, sent int) {
	head := delivery.Head{Due: int64(s.p)}
	lineup := []delivery.Waiting{{Queue: modelQueue, Now: s.todo, Head: head, Slots: delivery.Slots{N: sent}}}
	h.Offer(delivery.Owner{Partition: s.p}, lineup)
	n := min(s.todo, lineup[0].Slots.N)
	ds := runsOf(s.p, modelQueue, s.seq, n)
	s.todo -= n
	s.seq += n
	h.Deliver(s.p, ds, []delivery.Rest{{Queue: modelQueue, Unused: lineup[0].Slots.N - n,
		N: s.todo, Head: head}})
}

// raceSink is the sink of the race: it passes what it is told on to the partitions.
type raceSink struct {
	fakeSink
	partitions []*racePartition
	h          *Hub
	got        sync.Map // token → times
	left       sync.WaitGroup
}

func (m *raceSink) Slots(p delivery.Owner, _ delivery.Queue, n int) {
	m.post(p.Partition, func() { m.partitions[p.Partition].round(m.h, n) })
}

func (m *raceSink) Consumers(delivery.Queue) {
	for p := range m.partitions {
		m.Slots(delivery.Owner{Partition: p}, modelQueue, 0)
	}
}

func (m *raceSink) Undelivered(tokens []string) {
	for range tokens {
		// whoever redelivers it is all one to the hub
		m.post(0, func() { m.partitions[0].todo++; m.partitions[0].round(m.h, 0) })
	}
}

func (m *raceSink) post(p int, f func()) { m.partitions[p].tasks <- f }

// raceWorker is a worker that takes a few runs and leaves.
type raceWorker struct {
	fakeWorker
	m *raceSink
}

func (w *raceWorker) Deliver(ds []delivery.Delivery) bool {
	if !w.fakeWorker.Deliver(ds) {
		return false
	}
	for i := range ds {
		if _, twice := w.m.got.LoadOrStore(ds[i].Run.Token, true); twice {
			panic("delivered twice")
		}
		w.m.left.Done()
	}
	return true
}

func (w *raceWorker) work(h *Hub) {
	for range 20 {
		w.mu.Lock()
		w.refuses = false
		w.mu.Unlock()
		w.registration = h.Register(context.Background(), w, "worker", helloFor("q"))
		if err := w.registration.Join(); err != nil {
			panic(err)
		}
		for range 10 {
			w.registration.Subscriptions[0].Grant(7)
		}
		w.mu.Lock()
		w.refuses = true
		w.mu.Unlock()
		w.registration.Leave()
	}
}

// TestRace lets partitions deliver while workers come and go: each run reaches a worker exactly once, and no
// slot is left behind.
func TestRace(t *testing.T) {
	const partitions, runs = 8, 500
	m := &raceSink{}
	m.h = New(m, Options{Chunk: 16})
	m.left.Add(partitions * runs)
	var all sync.WaitGroup
	for p := range partitions {
		m.partitions = append(m.partitions, &racePartition{p: p, todo: runs, tasks: make(chan func(), 1<<16)})
	}
	for _, s := range m.partitions {
		all.Go(func() {
			for f := range s.tasks {
				f()
			}
		})
	}
	var workers sync.WaitGroup
	for range 4 {
		w := &raceWorker{m: m}
		workers.Go(func() { w.work(m.h) })
	}
	workers.Wait()
	last := &raceWorker{m: m}
	last.registration = m.h.Register(context.Background(), last, "worker", helloFor("q"))
	if err := last.registration.Join(); err != nil {
		t.Fatal(err)
	}
	last.registration.Subscriptions[0].Grant(partitions * runs)
	m.left.Wait()
	last.registration.Leave()
	for _, s := range m.partitions {
		close(s.tasks)
	}
	all.Wait()
	if st := m.h.Queues(); len(st) > 0 {
		t.Errorf("left behind: %+v", st)
	}
}
