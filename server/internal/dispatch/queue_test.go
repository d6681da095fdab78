package dispatch

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// check compares the queue's sums with what they sum up.
func (q *queue) check() error {
	credits, open, taken, reserved, waiting, local, silents := 0, 0, 0, 0, 0, 0, 0
	for _, s := range q.subscriptions {
		credits += s.room()
		if s.local {
			local++
		}
		if s.liveness == silent {
			silents++
		}
		if s.room() > 0 {
			open++
		}
	}
	for _, c := range q.claims {
		taken += c.taken
		reserved += c.reserved
		if c.at >= 0 {
			waiting++
		}
	}
	switch {
	case local != q.local:
		return fmt.Errorf("%d consumers in this process, not %d", q.local, local)
	case silents != q.silent:
		return fmt.Errorf("%d silent consumers, not %d", q.silent, silents)
	case credits != q.credits || open != len(q.open):
		return fmt.Errorf("credits %d and %d open, not %d and %d", q.credits, len(q.open), credits, open)
	case taken != q.taken || reserved != q.reserved || waiting != len(q.waiting):
		return fmt.Errorf("taken %d, reserved %d, waiting %d, not %d, %d, %d", q.taken, q.reserved,
			len(q.waiting), taken, reserved, waiting)
	case waiting > 0 && q.free() > 0:
		return fmt.Errorf("%d wait beside %d free slots", waiting, q.free())
	case waiting > 0 && q.unserved():
		return fmt.Errorf("%d wait for nobody", waiting)
	case len(q.subscriptions) == 0 && len(q.claims) == 0 && !q.limited():
		return fmt.Errorf("an empty queue is kept")
	}
	return nil
}

// queueModel drives a hub by random steps of partitions and workers.
type queueModel struct {
	t       *rapid.T
	h       *Hub
	sink    *fakeSink
	workers []*fakeWorker
	granted map[*fakeWorker]int
	slots   map[int]int // taken by partition
	want    map[int]int // runs that a partition still has to deliver
	sent    map[string]int
	seq     int
	waits   map[int]bool
}

var modelQueue = named("q")

func (m *queueModel) check() {
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	for _, q := range m.h.queues {
		if err := q.check(); err != nil {
			m.t.Fatal(err)
		}
	}
	got := map[string]int{}
	for c, n := range m.granted {
		if len(c.got) > n {
			m.t.Fatalf("%d deliveries for %d credits", len(c.got), n)
		}
		for _, token := range c.got {
			got[token]++
		}
	}
	for _, token := range m.sink.undelivered {
		got[token]++
	}
	for token, n := range got {
		if n != m.sent[token] {
			m.t.Fatalf("%s was delivered or handed back %d times, sent %d times", token, n, m.sent[token])
		}
	}
	if len(got) != len(m.sent) {
		m.t.Fatalf("%d of %d deliveries are gone", len(m.sent)-len(got), len(m.sent))
	}
}

func (m *queueModel) take(p, want int) {
	n, consumers := take(m.h, p, modelQueue, want, delivery.Head{Priority: uint8(p % 3), Due: int64(m.seq)})
	if n > want || (n > 0 && !consumers) {
		m.t.Fatalf("took %d of %d, consumers %v", n, want, consumers)
	}
	m.slots[p] += n
	m.waits[p] = n < want && consumers
}

func (m *queueModel) deliver(p, n int) {
	ds := runsOf(p, modelQueue, m.seq, n)
	m.seq += n
	for i := range ds {
		m.sent[ds[i].Run.Token]++
	}
	m.slots[p] -= n
	m.h.Deliver(p, ds, nil)
}

// rooms lets every partition that was told take again, as the engine does.
func (m *queueModel) rooms() {
	for rooms := m.sink.take(); len(rooms) > 0; rooms = m.sink.take() {
		for _, r := range rooms {
			m.take(r.p, m.want[r.p])
		}
	}
}

func (m *queueModel) steps() map[string]func(*rapid.T) {
	workerOf := func(t *rapid.T) *fakeWorker {
		if len(m.workers) == 0 {
			t.Skip("nobody is here")
		}
		return rapid.SampledFrom(m.workers).Draw(t, "worker")
	}
	partitionOf := func(t *rapid.T) int { return rapid.IntRange(0, 4).Draw(t, "p") }
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { m.t = t; m.check() },
		"join": func(*rapid.T) {
			c := &fakeWorker{}
			c.registration = m.h.Register(context.Background(), c, "worker", helloFor("q"))
			if err := c.registration.Join(); err != nil {
				m.t.Fatal(err)
			}
			m.workers, m.granted[c] = append(m.workers, c), 0
		},
		"leave": func(t *rapid.T) {
			c := workerOf(t)
			c.registration.Leave()
			m.workers = without(m.workers, c)
			m.rooms()
		},
		"grant": func(t *rapid.T) {
			c, n := workerOf(t), rapid.IntRange(1, 12).Draw(t, "n")
			m.granted[c] += n
			c.registration.Subscriptions[0].Grant(n)
		},
		"hold": func(t *rapid.T) {
			held := rapid.Bool().Draw(t, "held")
			workerOf(t).registration.Subscriptions[0].Hold(func() bool { return held })
		},
		"silence": func(t *rapid.T) {
			workerOf(t).registration.Silence(func() bool { return true })
			m.rooms() // whoever waited for the last one learns that nobody serves the queue
		},
		"word":  func(t *rapid.T) { workerOf(t).registration.Heard() },
		"rooms": func(*rapid.T) { m.rooms() },
		"take": func(t *rapid.T) {
			p, n := partitionOf(t), rapid.IntRange(0, 9).Draw(t, "n")
			m.want[p] = n
			m.take(p, n)
		},
		"deliver": func(t *rapid.T) {
			if p := partitionOf(t); m.slots[p] > 0 {
				m.deliver(p, rapid.IntRange(1, m.slots[p]).Draw(t, "n"))
			}
		},
		"rest": func(t *rapid.T) {
			p := partitionOf(t)
			r := delivery.Rest{Queue: modelQueue, Unused: rapid.IntRange(0, max(0, m.slots[p])).Draw(t, "unused"),
				N: rapid.IntRange(0, 9).Draw(t, "left"), Head: delivery.Head{Priority: 3, Due: int64(m.seq)}}
			m.h.Deliver(p, nil, []delivery.Rest{r})
			m.slots[p] -= r.Unused
			m.waits[p] = m.waits[p] && r.N > 0
		},
		"deliver untaken": func(t *rapid.T) { m.deliver(partitionOf(t), 1) },
		"forget": func(t *rapid.T) {
			p := partitionOf(t)
			m.h.Forget(p)
			m.slots[p], m.want[p], m.waits[p] = 0, 0, false
		},
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, l := hub(Options{Chunk: 3})
		m := &queueModel{t: t, h: h, sink: l, granted: map[*fakeWorker]int{}, slots: map[int]int{},
			want: map[int]int{}, sent: map[string]int{},
			waits: map[int]bool{}}
		t.Repeat(m.steps())
		m.settle()
	})
}

// settle gives enough credits: in the end nobody waits.
func (m *queueModel) settle() {
	c := &fakeWorker{}
	c.registration = m.h.Register(context.Background(), c, "worker", helloFor("q"))
	if err := c.registration.Join(); err != nil {
		m.t.Fatal(err)
	}
	m.granted[c] = 1000
	c.registration.Subscriptions[0].Grant(1000)
	for rooms := m.sink.take(); len(rooms) > 0; rooms = m.sink.take() {
		for _, r := range rooms {
			m.take(r.p, m.want[r.p])
			for m.slots[r.p] > 0 {
				m.deliver(r.p, 1)
			}
		}
	}
	for p, waits := range m.waits {
		if waits {
			m.t.Fatalf("partition %d waits for ever", p)
		}
	}
	m.check()
}

func TestInTurn(t *testing.T) {
	h, _ := hub(Options{})
	q := named("q")
	a, b, idle := join(t, h, "q"), join(t, h, "q", "other"), join(t, h, "q")
	a.registration.Subscriptions[0].Grant(10)
	b.registration.Subscriptions[0].Grant(3)
	take(h, 1, q, 8, delivery.Head{})
	h.Deliver(1, runsOf(1, q, 1, 8), nil)
	if len(a.got) != 5 || len(b.got) != 3 || len(idle.got) != 0 {
		t.Fatalf("%d, %d and %d", len(a.got), len(b.got), len(idle.got))
	}
	tokens := b.got
	h.Cancel([]delivery.Cancel{{Queue: q, Token: tokens[1]}, {Queue: q, Token: "unknown"}, {Queue: named("none"), Token: "x"}})
	if len(b.cancels) != 1 || b.cancels[0] != tokens[1] {
		t.Fatalf("cancelled %v", b.cancels)
	}
}

// TestConsumersInThisProcess get only what is in the store.
func TestConsumersInThisProcess(t *testing.T) {
	h, l := hub(Options{})
	q, far := named("q"), join(t, h, "q")
	far.registration.Subscriptions[0].Grant(1)
	if s := offer(h, 1, q, 1, delivery.Head{}); s.Durable || s.N != 1 {
		t.Fatalf("%+v", s)
	}
	here := &fakeWorker{}
	here.registration = h.Register(context.WithValue(t.Context(), localKey{}, true), here, "worker", helloFor("q"))
	if err := here.registration.Join(); err != nil {
		t.Fatal(err)
	}
	here.registration.Subscriptions[0].Grant(10)
	for range 5 { // whose turn it is does not matter
		if s := offer(h, 1, q, 1, delivery.Head{}); !s.Durable {
			t.Fatalf("%+v", s)
		}
	}
	h.Deliver(1, runsOf(1, q, 0, 6), nil)
	if len(far.got) != 1 || len(here.got) != 0 || len(l.undelivered) != 5 {
		t.Fatalf("far %d, here %d, back %d", len(far.got), len(here.got), len(l.undelivered))
	}
	ds := runsOf(1, q, 6, 3)
	for i := range ds {
		ds[i].Durable = true
	}
	h.Deliver(1, ds, nil)
	if len(here.got) != 3 {
		t.Fatalf("%d", len(here.got))
	}
	here.registration.Leave()
	if s := offer(h, 1, q, 1, delivery.Head{}); s.Durable {
		t.Fatal("it has left")
	}
}
