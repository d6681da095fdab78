package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

var gatedQueue = delivery.Queue{Namespace: "n", Kind: "dapr", Address: "actor/t"}

// checkGates compares what the gates count with what they count up, and sees that nothing waits beside room.
func (q *queue) checkGates() error {
	flight, held, bytes := 0, 0, 0
	keys := map[string]int{}
	for _, s := range q.subscriptions {
		flight += s.flight
		for key, n := range s.keys {
			keys[key] += n
		}
	}
	for key, n := range keys {
		if g := q.gates[key]; g == nil || n <= 0 {
			return fmt.Errorf("%d in flight of key %q that nobody counts", n, key)
		}
	}
	for _, g := range append(slices.Collect(maps.Values(q.gates)), &q.whole) {
		held += g.pending.Len()
		for e := g.pending.Front(); e != nil; e = e.Next() {
			bytes += e.Value.(*heldDelivery).size
		}
		if g != &q.whole && g.flight != keys[g.key] {
			return fmt.Errorf("%d in flight of key %q, not %d", g.flight, g.key, keys[g.key])
		}
		if q.passable(g) && (q.spare() > 0 || !g.ready) {
			return fmt.Errorf("%d wait behind gate %q beside room", g.pending.Len(), g.key)
		}
		if g != &q.whole && g.named == 0 && g.flight == 0 && g.pending.Len() == 0 {
			return fmt.Errorf("gate %q is kept for nothing", g.key)
		}
	}
	switch {
	case flight != q.whole.flight:
		return fmt.Errorf("%d in flight, not %d", q.whole.flight, flight)
	case held != len(q.held) || bytes != q.heldBytes:
		return fmt.Errorf("%d and %d bytes held, not %d and %d", len(q.held), q.heldBytes, held, bytes)
	case held > 0 && len(q.subscriptions) == 0:
		return fmt.Errorf("%d are held for nobody", held)
	}
	return nil
}

// gateModel drives a hub with gates by random steps of partitions and sidecars.
type gateModel struct {
	t       *rapid.T
	h       *Hub
	sink    *fakeSink
	workers []*fakeWorker
	seen    map[*fakeWorker]int      // how much of worker.got is known
	flight  map[*fakeWorker][]string // tokens
	key     map[string]string        // of each token sent
	gone    map[string]int           // tokens that were cancelled while they were held
	slots   map[int]int
	want    map[int]int
	before  map[string]int // in flight by key after the last step, "" = all
	seq     int
}

// limits is the most of each key; "" = the whole queue.
func (m *gateModel) limits() map[string]int {
	all := map[string]int{}
	for _, g := range m.h.Gates() {
		all[g.Key] = g.Most
	}
	return all
}

// check looks at everything after a step.
func (m *gateModel) check() {
	limits := m.limits()
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	at := map[string]int{}
	for token := range m.key {
		at[token] = m.gone[token]
	}
	for _, q := range m.h.queues {
		if err := q.check(); err != nil {
			m.t.Fatal(err)
		}
		if err := q.checkGates(); err != nil {
			m.t.Fatal(err)
		}
		for token := range q.held {
			at[token]++
		}
	}
	now := map[string]int{}
	for c, n := range m.seen {
		m.flight[c] = append(m.flight[c], c.got[n:]...)
		m.seen[c] = len(c.got)
		for _, token := range c.got {
			at[token]++
		}
		for _, token := range m.flight[c] {
			now[""]++
			if key := m.key[token]; key != "" {
				now[key]++
			}
		}
	}
	for _, token := range m.sink.undelivered {
		at[token]++
	}
	for token, n := range at {
		if n != 1 {
			m.t.Fatalf("%s is at %d places", token, n)
		}
	}
	for key, most := range limits {
		if now[key] > max(most, m.before[key]) {
			m.t.Fatalf("%d in flight of %q, at most %d", now[key], key, most)
		}
	}
	m.before = now
}

func (m *gateModel) take(p, want int) {
	n, _ := take(m.h, p, gatedQueue, want, delivery.Head{Priority: uint8(p % 2), Due: int64(m.seq)})
	m.slots[p] += n
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	if q := m.h.queues[gatedQueue]; n > 0 && q.whole.named > 0 && q.whole.flight+q.taken > q.whole.most {
		m.t.Fatalf("%d slots beyond the limit of the queue", n)
	}
}

// rounds lets every partition that was given slots deliver and ask for more, as the engine does.
func (m *gateModel) rounds(key func() string) {
	for given := m.sink.take(); len(given) > 0; given = m.sink.take() {
		for _, s := range given {
			p := s.p.Partition
			m.slots[p] += s.n
			m.take(p, m.want[p]-m.slots[p])
			m.deliver(p, max(0, m.slots[p]), key)
		}
	}
}

func (m *gateModel) deliver(p, n int, key func() string) {
	ds := runsOf(p, gatedQueue, m.seq, n)
	m.seq += n
	for i := range ds {
		ds[i].Key = key()
		ds[i].Run.Data.Bytes = make([]byte, i)
		m.key[ds[i].Run.Token] = ds[i].Key
	}
	m.slots[p] -= n
	m.want[p] = max(0, m.want[p]-n)
	m.h.Deliver(p, ds, nil)
}

func (m *gateModel) join(credits int, gates []Gate, queues ...string) *fakeWorker {
	c := &fakeWorker{}
	c.registration = m.h.Register(context.Background(), c, "dapr",
		carillon.Hello{Namespace: "n", Queues: queues, WorkerID: "w"})
	c.registration.Gates, c.registration.Credits = gates, credits
	if err := c.registration.Join(); err != nil {
		m.t.Fatal(err)
	}
	m.workers, m.seen[c] = append(m.workers, c), 0
	return c
}

func (m *gateModel) leave(c *fakeWorker) {
	c.registration.Leave()
	m.workers = without(m.workers, c)
	m.flight[c] = nil
}

func (m *gateModel) done(c *fakeWorker, i int) {
	token := m.flight[c][i]
	m.flight[c] = slices.Delete(m.flight[c], i, i+1)
	c.registration.Subscriptions[0].Done(m.key[token], 1, 1)
}

// forgetHeld notes that a token's is to be gone from the hub, if it is held.
func (m *gateModel) forgetHeld(token string) {
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	for _, q := range m.h.queues {
		if q.held[token] != nil {
			m.gone[token]++
		}
	}
}

func drawKey(t *rapid.T) string { return rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key") }

func drawGates(t *rapid.T) []Gate {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Gate {
		return Gate{Queue: gatedQueue, Key: drawKey(t), Most: rapid.IntRange(1, 5).Draw(t, "most")}
	}), 0, 3).Draw(t, "gates")
}

func (m *gateModel) steps() map[string]func(*rapid.T) {
	workerOf := func(t *rapid.T) *fakeWorker {
		if len(m.workers) == 0 {
			t.Skip("nobody is here")
		}
		return rapid.SampledFrom(m.workers).Draw(t, "worker")
	}
	partitionOf := func(t *rapid.T) int { return rapid.IntRange(0, 3).Draw(t, "p") }
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { m.t = t; m.check() },
		"join": func(t *rapid.T) {
			m.join(rapid.IntRange(0, 8).Draw(t, "credits"), drawGates(t), gatedQueue.Address)
		},
		"join for a gate alone": func(t *rapid.T) { m.join(0, drawGates(t)) },
		"leave":                 func(t *rapid.T) { m.leave(workerOf(t)) },
		"hold": func(t *rapid.T) {
			held := rapid.Bool().Draw(t, "held")
			for _, s := range workerOf(t).registration.Subscriptions {
				s.Hold(func() bool { return held })
			}
		},
		"done": func(t *rapid.T) {
			if c := workerOf(t); len(m.flight[c]) > 0 {
				m.done(c, rapid.IntRange(0, len(m.flight[c])-1).Draw(t, "i"))
			}
		},
		"rounds": func(t *rapid.T) { m.rounds(func() string { return drawKey(t) }) },
		"take": func(t *rapid.T) {
			p := partitionOf(t)
			m.want[p] = rapid.IntRange(0, 9).Draw(t, "n")
			m.take(p, m.want[p])
		},
		"deliver": func(t *rapid.T) {
			if p := partitionOf(t); m.slots[p] > 0 {
				m.deliver(p, rapid.IntRange(1, m.slots[p]).Draw(t, "n"), func() string { return drawKey(t) })
			}
		},
		"deliver untaken": func(t *rapid.T) {
			m.deliver(partitionOf(t), 1, func() string { return drawKey(t) })
			m.slots = m.takenSlots()
		},
		"cancel": func(t *rapid.T) {
			tokens := slices.Sorted(maps.Keys(m.key))
			if q := m.h.queues[gatedQueue]; q != nil && len(q.held) > 0 && rapid.Bool().Draw(t, "held") {
				tokens = slices.Sorted(maps.Keys(q.held))
			}
			if len(tokens) == 0 {
				t.Skip("nothing was sent")
			}
			token := rapid.SampledFrom(tokens).Draw(t, "token")
			m.forgetHeld(token)
			m.h.Cancel([]delivery.Cancel{{Queue: gatedQueue, Token: token}})
		},
		"forget": func(t *rapid.T) {
			p := partitionOf(t)
			m.h.Forget(p) // what is held is handed back
			m.slots[p], m.want[p] = 0, 0
			m.sink.slots = slices.DeleteFunc(m.sink.slots, func(s slots) bool { return s.p.Partition == p })
		},
	}
}

// takenSlots is what the hub says partitions have, but for what is on its way to them.
func (m *gateModel) takenSlots() map[int]int {
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	all := map[int]int{}
	if q := m.h.queues[gatedQueue]; q != nil {
		for p, c := range q.claims {
			all[p] = c.taken
		}
	}
	for _, s := range m.sink.slots {
		all[s.p.Partition] -= s.n
	}
	return all
}

// settle lets everything end: what waits goes on, and when all have left nothing remains.
func (m *gateModel) settle() {
	plain := func() string { return "a" }
	last := m.join(3, []Gate{{gatedQueue, "", 2}, {gatedQueue, "a", 1}}, gatedQueue.Address)
	for p, n := range m.slots {
		m.deliver(p, max(0, n), plain)
	}
	for {
		m.rounds(plain)
		m.check()
		busy := false
		for _, c := range slices.Clone(m.workers) {
			for _, s := range c.registration.Subscriptions {
				s.Hold(func() bool { return false })
			}
			for len(m.flight[c]) > 0 {
				m.done(c, 0)
				m.check()
				busy = true
			}
		}
		if !busy {
			break
		}
	}
	if st := m.h.Queues()[0]; st.Held > 0 || st.Waiting > 0 || st.InFlight > 0 {
		m.t.Fatalf("something is stuck: %+v", st)
	}
	for _, c := range slices.Clone(m.workers) {
		if c != last {
			m.leave(c)
		}
	}
	m.leave(last)
	m.check()
	m.sink.take()
	if len(m.h.queues) != 0 || len(m.h.registrations) != 0 {
		m.t.Fatalf("%d queues are left behind", len(m.h.queues))
	}
}

func TestGatesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, l := hub(Options{Chunk: 2})
		m := &gateModel{t: t, h: h, sink: l, seen: map[*fakeWorker]int{}, flight: map[*fakeWorker][]string{},
			key:  map[string]string{},
			gone: map[string]int{}, slots: map[int]int{}, want: map[int]int{}, before: map[string]int{}}
		t.Repeat(m.steps())
		m.settle()
	})
}
