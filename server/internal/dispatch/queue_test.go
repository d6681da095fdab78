package dispatch

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// check compares the queue's sums with what they sum up.
func (q *queue) check() error {
	credits, open, taken, waiting, local, silents := 0, 0, 0, 0, 0, 0
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
		if c.want > 0 {
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
	case taken != q.taken || waiting != len(q.waiting):
		return fmt.Errorf("taken %d, waiting %d, not %d, %d", q.taken, len(q.waiting), taken, waiting)
	case waiting > 0 && q.free() > 0:
		return fmt.Errorf("%d wait beside %d free slots", waiting, q.free())
	case waiting > 0 && q.unserved():
		return fmt.Errorf("%d wait for nobody", waiting)
	case len(q.subscriptions) == 0 && len(q.claims) == 0:
		return fmt.Errorf("an empty queue is kept")
	}
	return nil
}

// queueModel drives a hub by random steps of partitions and workers. After each step:
//
//   - no slot is lost or made: a partition has those that it knows of and those on their way to it;
//   - no more is delivered than was granted, and each delivery is at one place;
//   - who waits is given slots, the best head first, before any is free (check).
type queueModel struct {
	t       *rapid.T
	h       *Hub
	sink    *fakeSink
	workers []*fakeWorker
	granted map[*fakeWorker]int
	slots   map[int]int // that a partition knows of
	mail    []slots     // on their way to partitions
	term    map[int]uint64
	head    map[int]delivery.Head // that a partition waits with
	want    map[int]int           // runs that a partition still has to deliver
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
	m.checkSlots()
}

// checkSlots is for a step that is one call of the hub.
func (m *queueModel) checkSlots() {
	var last *delivery.Head // of those that were given slots in this step
	for _, s := range m.sink.take() {
		m.mail = append(m.mail, s)
		head := m.head[s.p.Partition]
		switch {
		case s.n == 0:
		case last != nil && head.Compare(*last) < 0:
			m.t.Fatalf("%+v is given slots after %+v", head, *last)
		default:
			last = &head
		}
	}
	has := map[int]int{}
	if q := m.h.queues[modelQueue]; q != nil {
		for p, c := range q.claims {
			has[p] = c.taken
			if c.want > 0 && (c.head != m.head[p] || last != nil && c.head.Compare(*last) < 0) {
				m.t.Fatalf("partition %d waits with %+v, not %+v; the last one served had %+v", p,
					c.head, m.head[p], last)
			}
		}
	}
	for p := range 5 {
		sent := 0
		for _, s := range m.mail {
			if s.p == m.owner(p) {
				sent += s.n
			}
		}
		if has[p] != m.slots[p]+sent {
			m.t.Fatalf("partition %d has %d slots, not %d and %d on their way", p, has[p], m.slots[p], sent)
		}
	}
}

func (m *queueModel) owner(p int) delivery.Owner {
	return delivery.Owner{Partition: p, Epoch: m.term[p]}
}

// receive takes p's mail, and returns how many slots it brings. Slots of an earlier term have ended with it.
func (m *queueModel) receive(p int) (n int) {
	m.mail = slices.DeleteFunc(m.mail, func(s slots) bool {
		if s.p == m.owner(p) {
			n += s.n
			m.waits[p] = false
		}
		return s.p.Partition == p
	})
	m.slots[p] += n
	return n
}

// take lets p ask for what it wants beside the slots that have come by mail.
func (m *queueModel) take(p, want int) {
	m.checkSlots()
	sent := m.receive(p)
	m.head[p] = delivery.Head{Priority: uint8(p % 3), Due: int64(m.seq)}
	lineup := []delivery.Waiting{{Queue: modelQueue, Now: want, Head: m.head[p], Slots: delivery.Slots{N: sent}}}
	m.h.Offer(m.owner(p), lineup)
	got := lineup[0].Slots
	if got.N < sent || got.N > max(want, sent) || (got.N > sent && !got.Served) {
		m.t.Fatalf("got %+v of %d beside %d", got, want, sent)
	}
	m.slots[p] += got.N - sent
	m.waits[p] = got.N < want && got.Served
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

// rounds lets every partition that has mail ask again, as the engine does.
func (m *queueModel) rounds() {
	for m.checkSlots(); len(m.mail) > 0; m.checkSlots() {
		p := m.mail[0].p.Partition
		m.take(p, m.want[p])
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
		},
		"word":   func(t *rapid.T) { workerOf(t).registration.Heard() },
		"rounds": func(*rapid.T) { m.rounds() },
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
			m.head[p] = r.Head
			m.h.Deliver(p, nil, []delivery.Rest{r})
			m.slots[p] -= r.Unused
			m.waits[p] = m.waits[p] && r.N > 0
		},
		"deliver untaken": func(t *rapid.T) {
			p, had := partitionOf(t), 0
			if q := m.h.queues[modelQueue]; q != nil && q.claims[p] != nil {
				had = q.claims[p].taken
			}
			m.deliver(p, 1)
			if had == 0 { // it went in a free one, or not at all
				m.slots[p]++
			}
		},
		"forget": func(t *rapid.T) {
			p := partitionOf(t)
			m.h.Forget(p)
			m.term[p]++ // mail that is under way is of the term before
			m.slots[p], m.want[p], m.waits[p] = 0, 0, false
		},
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, l := hub(Options{Chunk: 3})
		m := &queueModel{t: t, h: h, sink: l, granted: map[*fakeWorker]int{}, slots: map[int]int{},
			want: map[int]int{}, sent: map[string]int{}, waits: map[int]bool{}, term: map[int]uint64{},
			head: map[int]delivery.Head{}}
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
	for m.checkSlots(); len(m.mail) > 0; m.checkSlots() {
		p := m.mail[0].p.Partition
		m.take(p, m.want[p])
		for m.slots[p] > 0 {
			m.deliver(p, 1)
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
	h.Cancel([]delivery.Cancel{{Queue: q, Token: tokens[1]}, {Queue: q, Token: "unknown"},
		{Queue: named("none"), Token: "x"}})
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
	here.registration = h.Register(context.WithValue(t.Context(), localKey{}, true), here,
		"worker", helloFor("q"))
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
