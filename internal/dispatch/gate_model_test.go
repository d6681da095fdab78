package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

var gatedQueue = partition.Queue{Namespace: "n", Kind: "dapr", Address: "actor/t"}

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

// yard drives a hub with gates by random steps of partitions and sidecars.
type yard struct {
	t      *rapid.T
	h      *Hub
	l      *log
	crews  []*fakeWorker
	seen   map[*fakeWorker]int      // how much of crew.got is known
	flight map[*fakeWorker][]string // tokens
	key    map[string]string        // of each token sent
	gone   map[string]int           // tokens that were cancelled while they were held
	slots  map[int]int
	want   map[int]int
	before map[string]int // in flight by key after the last step, "" = all
	seq    int
}

// limits is the most of each key; "" = the whole queue.
func (y *yard) limits() map[string]int {
	all := map[string]int{}
	for _, g := range y.h.Gates() {
		all[g.Key] = g.Most
	}
	return all
}

// check looks at everything after a step.
func (y *yard) check() {
	limits := y.limits()
	y.h.mu.Lock()
	defer y.h.mu.Unlock()
	at := map[string]int{}
	for token := range y.key {
		at[token] = y.gone[token]
	}
	for _, q := range y.h.queues {
		if err := q.check(); err != nil {
			y.t.Fatal(err)
		}
		if err := q.checkGates(); err != nil {
			y.t.Fatal(err)
		}
		for token := range q.held {
			at[token]++
		}
	}
	now := map[string]int{}
	for c, n := range y.seen {
		y.flight[c] = append(y.flight[c], c.got[n:]...)
		y.seen[c] = len(c.got)
		for _, token := range c.got {
			at[token]++
		}
		for _, token := range y.flight[c] {
			now[""]++
			if key := y.key[token]; key != "" {
				now[key]++
			}
		}
	}
	for _, token := range y.l.undelivered {
		at[token]++
	}
	for token, n := range at {
		if n != 1 {
			y.t.Fatalf("%s is at %d places", token, n)
		}
	}
	for key, most := range limits {
		if now[key] > max(most, y.before[key]) {
			y.t.Fatalf("%d in flight of %q, at most %d", now[key], key, most)
		}
	}
	y.before = now
}

func (y *yard) take(p, want int) {
	n, _ := take(y.h, p, gatedQueue, want, partition.Head{Priority: uint8(p % 2), Due: int64(y.seq)})
	y.slots[p] += n
	y.h.mu.Lock()
	defer y.h.mu.Unlock()
	if q := y.h.queues[gatedQueue]; n > 0 && q.whole.named > 0 && q.whole.flight+q.taken+q.reserved > q.whole.most {
		y.t.Fatalf("%d slots beyond the limit of the queue", n)
	}
}

// rooms lets every partition that was told take again and deliver, as the engine does.
func (y *yard) rooms(key func() string) {
	for rooms := y.l.take(); len(rooms) > 0; rooms = y.l.take() {
		for _, r := range rooms {
			y.take(r.p, y.want[r.p])
			y.deliver(r.p, y.slots[r.p], key)
		}
	}
}

func (y *yard) deliver(p, n int, key func() string) {
	ds := runsOf(p, gatedQueue, y.seq, n)
	y.seq += n
	for i := range ds {
		ds[i].Key = key()
		ds[i].Run.Data.Bytes = make([]byte, i)
		y.key[ds[i].Run.Token] = ds[i].Key
	}
	y.slots[p] -= n
	y.want[p] = max(0, y.want[p]-n)
	y.h.Deliver(ds)
}

func (y *yard) join(credits int, gates []Gate, queues ...string) *fakeWorker {
	c := &fakeWorker{}
	c.member = y.h.Register(context.Background(), c, "dapr", carillon.Hello{Namespace: "n", Queues: queues, WorkerID: "w"})
	c.member.Gates, c.member.Credits = gates, credits
	if err := c.member.Join(); err != nil {
		y.t.Fatal(err)
	}
	y.crews, y.seen[c] = append(y.crews, c), 0
	return c
}

func (y *yard) leave(c *fakeWorker) {
	c.member.Leave()
	y.crews = without(y.crews, c)
	y.flight[c] = nil
}

func (y *yard) done(c *fakeWorker, i int) {
	token := y.flight[c][i]
	y.flight[c] = slices.Delete(y.flight[c], i, i+1)
	c.member.Subscriptions[0].DoneOf(y.key[token], 1, 1)
}

// forgetHeld notes that a token's is to be gone from the hub, if it is held.
func (y *yard) forgetHeld(token string) {
	y.h.mu.Lock()
	defer y.h.mu.Unlock()
	for _, q := range y.h.queues {
		if q.held[token] != nil {
			y.gone[token]++
		}
	}
}

func drawKey(t *rapid.T) string { return rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key") }

func drawGates(t *rapid.T) []Gate {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Gate {
		return Gate{Queue: gatedQueue, Key: drawKey(t), Most: rapid.IntRange(1, 5).Draw(t, "most")}
	}), 0, 3).Draw(t, "gates")
}

func (y *yard) steps() map[string]func(*rapid.T) {
	crewOf := func(t *rapid.T) *fakeWorker {
		if len(y.crews) == 0 {
			t.Skip("nobody is here")
		}
		return rapid.SampledFrom(y.crews).Draw(t, "crew")
	}
	partitionOf := func(t *rapid.T) int { return rapid.IntRange(0, 3).Draw(t, "p") }
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { y.t = t; y.check() },
		"join": func(t *rapid.T) {
			y.join(rapid.IntRange(0, 8).Draw(t, "credits"), drawGates(t), gatedQueue.Address)
		},
		"join for a gate alone": func(t *rapid.T) { y.join(0, drawGates(t)) },
		"leave":                 func(t *rapid.T) { y.leave(crewOf(t)) },
		"hold": func(t *rapid.T) {
			held := rapid.Bool().Draw(t, "held")
			for _, s := range crewOf(t).member.Subscriptions {
				s.Hold(func() bool { return held })
			}
		},
		"done": func(t *rapid.T) {
			if c := crewOf(t); len(y.flight[c]) > 0 {
				y.done(c, rapid.IntRange(0, len(y.flight[c])-1).Draw(t, "i"))
			}
		},
		"rooms": func(t *rapid.T) { y.rooms(func() string { return drawKey(t) }) },
		"take": func(t *rapid.T) {
			p := partitionOf(t)
			y.want[p] = rapid.IntRange(0, 9).Draw(t, "n")
			y.take(p, y.want[p])
		},
		"deliver": func(t *rapid.T) {
			if p := partitionOf(t); y.slots[p] > 0 {
				y.deliver(p, rapid.IntRange(1, y.slots[p]).Draw(t, "n"), func() string { return drawKey(t) })
			}
		},
		"deliver untaken": func(t *rapid.T) {
			y.deliver(partitionOf(t), 1, func() string { return drawKey(t) })
			y.slots = y.owed()
		},
		"cancel": func(t *rapid.T) {
			tokens := slices.Sorted(maps.Keys(y.key))
			if q := y.h.queues[gatedQueue]; q != nil && len(q.held) > 0 && rapid.Bool().Draw(t, "held") {
				tokens = slices.Sorted(maps.Keys(q.held))
			}
			if len(tokens) == 0 {
				t.Skip("nothing was sent")
			}
			token := rapid.SampledFrom(tokens).Draw(t, "token")
			y.forgetHeld(token)
			y.h.Cancel([]partition.Cancel{{Queue: gatedQueue, Token: token}})
		},
		"forget": func(t *rapid.T) {
			p := partitionOf(t)
			y.h.Forget(p) // what is held is handed back
			y.slots[p], y.want[p] = 0, 0
		},
	}
}

// owed is what the hub says partitions have taken.
func (y *yard) owed() map[int]int {
	y.h.mu.Lock()
	defer y.h.mu.Unlock()
	all := map[int]int{}
	if q := y.h.queues[gatedQueue]; q != nil {
		for p, c := range q.claims {
			all[p] = c.taken
		}
	}
	return all
}

// settle lets everything end: what waits goes on, and when all have left nothing remains.
func (y *yard) settle() {
	plain := func() string { return "a" }
	last := y.join(3, []Gate{{gatedQueue, "", 2}, {gatedQueue, "a", 1}}, gatedQueue.Address)
	for p, n := range y.slots {
		y.deliver(p, n, plain)
	}
	for {
		y.rooms(plain)
		y.check()
		busy := false
		for _, c := range slices.Clone(y.crews) {
			for _, s := range c.member.Subscriptions {
				s.Hold(func() bool { return false })
			}
			for len(y.flight[c]) > 0 {
				y.done(c, 0)
				y.check()
				busy = true
			}
		}
		if !busy {
			break
		}
	}
	if st := y.h.Queues()[0]; st.Held > 0 || st.Waiting > 0 || st.InFlight > 0 {
		y.t.Fatalf("something is stuck: %+v", st)
	}
	for _, c := range slices.Clone(y.crews) {
		if c != last {
			y.leave(c)
		}
	}
	y.leave(last)
	y.check()
	y.l.take()
	if len(y.h.queues) != 0 || len(y.h.members) != 0 {
		y.t.Fatalf("%d queues are left behind", len(y.h.queues))
	}
}

func TestGatesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, l := hub(Options{Chunk: 2})
		y := &yard{t: t, h: h, l: l, seen: map[*fakeWorker]int{}, flight: map[*fakeWorker][]string{}, key: map[string]string{},
			gone: map[string]int{}, slots: map[int]int{}, want: map[int]int{}, before: map[string]int{}}
		t.Repeat(y.steps())
		y.settle()
	})
}
