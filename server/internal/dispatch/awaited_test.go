package dispatch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// boundedHost bounds how many attempts await their completion.
type boundedHost struct {
	fakeHost
	most int
}

func (b *boundedHost) MostAwaited() int { return b.most }

// boundedTransport has one queue.
type boundedTransport struct {
	fakeTransport
	host boundedHost
}

func (t *boundedTransport) Open(_ delivery.Queue, s *Subscription) (Consumer, int) {
	t.host.subscription = s
	return &t.host, t.credits
}

// awaitedModel has partitions whose attempts await their completion for long after they were acknowledged.
type awaitedModel struct {
	t         *testing.T
	h         *Hub
	sink      *fakeSink
	transport *boundedTransport
	slots     [4]int // that a partition has
	pending   [4]int // attempts that leave once they are durable, and have slots until then
	waits     [4]int // runs that are due
	awaited   [4]int
	unacked   int
	seq       int
}

var brokerQueue = delivery.Queue{Namespace: "n", Kind: "kafka", Address: "c/t"}

// tell tells the hub what a partition has in force.
func (m *awaitedModel) tell(p int) {
	m.h.Awaited(p, []delivery.Awaited{{Queue: brokerQueue, N: m.awaited[p]}})
}

// round asks for slots, and uses those that there are.
func (m *awaitedModel) round(p int) {
	m.tell(p)
	lineup := []delivery.Waiting{{Queue: brokerQueue, N: m.waits[p], Now: m.waits[p],
		Slots: delivery.Slots{N: m.slots[p]}}}
	m.h.Offer(delivery.Owner{Partition: p}, lineup)
	given := lineup[0].Slots.N
	n := min(given, m.waits[p])
	m.waits[p] -= n
	m.pending[p] += n
	m.slots[p] = 0
	m.h.Deliver(p, nil, []delivery.Rest{{Queue: brokerQueue, Unused: given - n, N: m.waits[p]}})
}

// leave has so many of the attempts leave that a partition has made.
func (m *awaitedModel) leave(p, n int) {
	m.pending[p] -= n
	m.awaited[p] += n
	m.tell(p)
	ds := runsOf(p, brokerQueue, m.seq, n)
	m.seq += n
	m.unacked += n
	m.h.Deliver(p, ds, nil)
}

func (m *awaitedModel) acknowledge(n int) {
	if m.unacked -= n; n > 0 {
		m.transport.host.subscription.Done(n, n)
	}
}

func (m *awaitedModel) check(when string) {
	m.t.Helper()
	for _, s := range m.sink.take() {
		m.slots[s.p.Partition] += s.n
	}
	sum := 0
	for p := range m.awaited {
		sum += m.awaited[p] + m.slots[p] + m.pending[p]
	}
	if sum > m.transport.host.most || m.unacked > m.transport.credits || len(m.sink.undelivered) > 0 {
		m.t.Fatalf("%s: %d of %d are awaited or may leave, %d of %d are not acknowledged, %d did not leave", when, sum,
			m.transport.host.most, m.unacked, m.transport.credits, len(m.sink.undelivered))
	}
	m.h.mu.Lock()
	defer m.h.mu.Unlock()
	for _, q := range m.h.queues {
		if err := q.check(); err != nil {
			m.t.Fatalf("%s: %v", when, err)
		}
	}
}

// TestAwaitedAttemptsAreBounded: whatever partitions do, no more attempts of a queue await their completion than may,
// and when some end, others leave. Partitions that leave the node take theirs along. In the end all have left.
func TestAwaitedAttemptsAreBounded(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		tr := &boundedTransport{fakeTransport: fakeTransport{credits: 1 + random.IntN(20)}}
		tr.host.most = 1 + random.IntN(30)
		h, sink := hub(Options{Transports: map[string]Transport{"kafka": tr}, Chunk: 1 + random.IntN(8)})
		m := &awaitedModel{t: t, h: h, sink: sink, transport: tr}
		for step := range 300 {
			p := random.IntN(len(m.slots))
			switch random.IntN(7) {
			case 0:
				m.waits[p] += random.IntN(10)
			case 1, 2:
				m.round(p)
			case 3:
				m.acknowledge(random.IntN(m.unacked + 1))
			case 4:
				m.awaited[p] -= random.IntN(m.awaited[p] + 1)
				m.tell(p)
			case 5:
				m.leave(p, random.IntN(m.pending[p]+1))
			default:
				if random.IntN(10) == 0 {
					m.h.Forget(p)
					m.slots[p], m.pending[p], m.awaited[p] = 0, 0, 0
				}
			}
			m.check(fmt.Sprint("seed ", seed, ", step ", step))
		}
		for passes := 0; m.waits != [4]int{}; passes++ {
			if passes == 5000 {
				t.Fatalf("seed %d: %v runs do not leave although there is room", seed, m.waits)
			}
			for p := range m.waits {
				m.acknowledge(m.unacked)
				m.awaited[p] = 0
				m.tell(p)
				m.check(fmt.Sprint("seed ", seed, ", the end"))
				m.round(p)
				m.leave(p, m.pending[p])
			}
		}
	}
}

// TestSlotsOfPendingAttemptsCountOnce: a partition whose attempts have not left has their slots, and others get what
// is left. One that has lost its slot is not refused when there is room for it.
func TestSlotsOfPendingAttemptsCountOnce(t *testing.T) {
	tr := &boundedTransport{fakeTransport: fakeTransport{credits: 10}}
	tr.host.most = 4
	h, sink := hub(Options{Transports: map[string]Transport{"kafka": tr}})
	if s := offer(h, 1, brokerQueue, 2, delivery.Head{}); s.N != 2 {
		t.Fatalf("%+v", s)
	}
	if s := offer(h, 2, brokerQueue, 5, delivery.Head{}); s.N != 2 {
		t.Errorf("beside two pending attempts: %+v", s)
	}
	if c := h.Look(brokerQueue); c.Awaited != 4 {
		t.Errorf("those that are about to leave are not among %+v", c)
	}
	h.Forget(2)
	h.Awaited(1, []delivery.Awaited{{Queue: brokerQueue, N: 2}})
	h.Deliver(1, runsOf(1, brokerQueue, 0, 2), nil)
	for i, fits := range []bool{true, true, false} { // without slots
		h.Awaited(3, []delivery.Awaited{{Queue: brokerQueue, N: i + 1}})
		h.Deliver(3, runsOf(3, brokerQueue, 10+i, 1), nil)
		if left := len(sink.undelivered) == 0; left != fits {
			t.Errorf("attempt %d of 2 that may leave has left: %v", i+1, left)
		}
	}
}

// TestHowManyAreAwaited is seen by those who ask why a run waits.
func TestHowManyAreAwaited(t *testing.T) {
	tr := &boundedTransport{fakeTransport: fakeTransport{credits: 10}}
	tr.host.most = 3
	h, _ := hub(Options{Transports: map[string]Transport{"kafka": tr}})
	h.Awaited(7, []delivery.Awaited{{Queue: brokerQueue, N: 2}}) // of an earlier term, before anything is due
	if s := offer(h, 1, brokerQueue, 5, delivery.Head{}); s.N != 1 || !s.Served {
		t.Errorf("%+v", s)
	}
	if c := h.Look(brokerQueue); c.Awaited != 3 || c.MostAwaited != 3 || c.Credits != 0 {
		t.Errorf("%+v", c)
	}
	tr.host.most = 4 // the file has changed
	if s := offer(h, 1, brokerQueue, 5, delivery.Head{}); s.N != 1 {
		t.Errorf("with room for one more: %+v", s)
	}
}
