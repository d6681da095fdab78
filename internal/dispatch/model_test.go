package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/partition"
)

// check compares the queue's sums with what they sum up.
func (q *queue) check() error {
	credits, open, taken, reserved, waiting, local, silent := 0, 0, 0, 0, 0, 0, 0
	for _, s := range q.subscriptions {
		credits += s.room()
		if s.local {
			local++
		}
		if s.silent {
			silent++
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
	case silent != q.silent:
		return fmt.Errorf("%d silent consumers, not %d", q.silent, silent)
	case credits != q.credits || open != len(q.open):
		return fmt.Errorf("credits %d and %d open, not %d and %d", q.credits, len(q.open), credits, open)
	case taken != q.taken || reserved != q.reserved || waiting != len(q.waiting):
		return fmt.Errorf("taken %d, reserved %d, waiting %d, not %d, %d, %d", q.taken, q.reserved, len(q.waiting), taken, reserved, waiting)
	case waiting > 0 && q.free() > 0:
		return fmt.Errorf("%d wait beside %d free slots", waiting, q.free())
	case waiting > 0 && q.unserved():
		return fmt.Errorf("%d wait for nobody", waiting)
	case len(q.subscriptions) == 0 && len(q.claims) == 0 && !q.limited():
		return fmt.Errorf("an empty queue is kept")
	}
	return nil
}

// model drives a hub by random steps of partitions and workers.
type model struct {
	t       *rapid.T
	h       *Hub
	l       *log
	crews   []*fakeWorker
	granted map[*fakeWorker]int
	slots   map[int]int // taken by partition
	want    map[int]int // runs that a partition still has to deliver
	sent    map[string]int
	seq     int
	waits   map[int]bool
}

var modelQueue = named("q")

func (m *model) check() {
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
	for _, token := range m.l.undelivered {
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

func (m *model) take(p, want int) {
	n, consumers := take(m.h, p, modelQueue, want, partition.Head{Priority: uint8(p % 3), Due: int64(m.seq)})
	if n > want || (n > 0 && !consumers) {
		m.t.Fatalf("took %d of %d, consumers %v", n, want, consumers)
	}
	m.slots[p] += n
	m.waits[p] = n < want && consumers
}

func (m *model) deliver(p, n int) {
	ds := runsOf(p, modelQueue, m.seq, n)
	m.seq += n
	for i := range ds {
		m.sent[ds[i].Run.Token]++
	}
	m.slots[p] -= n
	m.h.Deliver(ds)
}

// rooms lets every partition that was told take again, as the engine does.
func (m *model) rooms() {
	for rooms := m.l.take(); len(rooms) > 0; rooms = m.l.take() {
		for _, r := range rooms {
			m.take(r.p, m.want[r.p])
		}
	}
}

func (m *model) steps() map[string]func(*rapid.T) {
	crewOf := func(t *rapid.T) *fakeWorker {
		if len(m.crews) == 0 {
			t.Skip("nobody is here")
		}
		return rapid.SampledFrom(m.crews).Draw(t, "crew")
	}
	partitionOf := func(t *rapid.T) int { return rapid.IntRange(0, 4).Draw(t, "p") }
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { m.t = t; m.check() },
		"join": func(*rapid.T) {
			c := &fakeWorker{}
			c.member = m.h.Register(context.Background(), c, "worker", helloFor("q"))
			if err := c.member.Join(); err != nil {
				m.t.Fatal(err)
			}
			m.crews, m.granted[c] = append(m.crews, c), 0
		},
		"leave": func(t *rapid.T) {
			c := crewOf(t)
			c.member.Leave()
			m.crews = without(m.crews, c)
			m.rooms()
		},
		"grant": func(t *rapid.T) {
			c, n := crewOf(t), rapid.IntRange(1, 12).Draw(t, "n")
			m.granted[c] += n
			c.member.Subscriptions[0].Grant(n)
		},
		"hold": func(t *rapid.T) {
			held := rapid.Bool().Draw(t, "held")
			crewOf(t).member.Subscriptions[0].Hold(func() bool { return held })
		},
		"silence": func(t *rapid.T) {
			crewOf(t).member.Silence(func() bool { return true })
			m.rooms() // whoever waited for the last one learns that nobody serves the queue
		},
		"word":  func(t *rapid.T) { crewOf(t).member.Heard() },
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
		"return": func(t *rapid.T) {
			if p := partitionOf(t); m.slots[p] > 0 {
				n := rapid.IntRange(1, m.slots[p]).Draw(t, "n")
				m.h.Return(p, modelQueue, n)
				m.slots[p] -= n
			}
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
		m := &model{t: t, h: h, l: l, granted: map[*fakeWorker]int{}, slots: map[int]int{}, want: map[int]int{}, sent: map[string]int{},
			waits: map[int]bool{}}
		t.Repeat(m.steps())
		m.settle()
	})
}

// settle gives enough credits: in the end nobody waits.
func (m *model) settle() {
	c := &fakeWorker{}
	c.member = m.h.Register(context.Background(), c, "worker", helloFor("q"))
	if err := c.member.Join(); err != nil {
		m.t.Fatal(err)
	}
	m.granted[c] = 1000
	c.member.Subscriptions[0].Grant(1000)
	for rooms := m.l.take(); len(rooms) > 0; rooms = m.l.take() {
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

// shop is a partition with runs to deliver, driven by news as the engine's is.
type shop struct {
	p    int
	mail chan func()
	todo int
	seq  int
}

func (s *shop) round(h *Hub) {
	n, _ := take(h, s.p, modelQueue, s.todo, partition.Head{Due: int64(s.p)})
	if n > 0 {
		ds := runsOf(s.p, modelQueue, s.seq, n)
		s.todo -= n
		s.seq += n
		h.Deliver(ds)
	}
}

// market is the sink of the race: it passes news on to the shops.
type market struct {
	log
	shops []*shop
	h     *Hub
	got   sync.Map // token → times
	left  sync.WaitGroup
}

func (m *market) Room(p int, _ partition.Queue) { m.post(p, func() { m.shops[p].round(m.h) }) }

func (m *market) Consumers(partition.Queue) {
	for p := range m.shops {
		m.Room(p, modelQueue)
	}
}

func (m *market) Undelivered(tokens []string) {
	for range tokens {
		m.post(0, func() { m.shops[0].todo++; m.shops[0].round(m.h) }) // whoever redelivers it is all one to the hub
	}
}

func (m *market) post(p int, f func()) { m.shops[p].mail <- f }

// hand is a worker that takes a few runs and leaves.
type hand struct {
	fakeWorker
	m *market
}

func (w *hand) Deliver(ds []partition.Delivery) bool {
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

func (w *hand) work(h *Hub) {
	for range 20 {
		w.mu.Lock()
		w.deaf = false
		w.mu.Unlock()
		w.member = h.Register(context.Background(), w, "worker", helloFor("q"))
		if err := w.member.Join(); err != nil {
			panic(err)
		}
		for range 10 {
			w.member.Subscriptions[0].Grant(7)
		}
		w.mu.Lock()
		w.deaf = true
		w.mu.Unlock()
		w.member.Leave()
	}
}

// TestRace lets partitions deliver while workers come and go: each run reaches a worker exactly once.
func TestRace(t *testing.T) {
	const shops, runs = 8, 500
	m := &market{}
	m.h = New(m, Options{Chunk: 16})
	m.left.Add(shops * runs)
	var all sync.WaitGroup
	for p := range shops {
		m.shops = append(m.shops, &shop{p: p, todo: runs, mail: make(chan func(), 1<<16)})
	}
	for _, s := range m.shops {
		all.Go(func() {
			for f := range s.mail {
				f()
			}
		})
	}
	var workers sync.WaitGroup
	for range 4 {
		w := &hand{m: m}
		workers.Go(func() { w.work(m.h) })
	}
	workers.Wait()
	last := &hand{m: m}
	last.member = m.h.Register(context.Background(), last, "worker", helloFor("q"))
	if err := last.member.Join(); err != nil {
		t.Fatal(err)
	}
	last.member.Subscriptions[0].Grant(shops * runs)
	m.left.Wait()
	last.member.Leave()
	for _, s := range m.shops {
		close(s.mail)
	}
	all.Wait()
}
