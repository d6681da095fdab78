package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// fakeHub is a dispatcher that serves some queues.
type fakeHub struct {
	Dispatcher
	served map[delivery.Queue]bool
	taken  int // calls of Take for no slots, which give slots back
}

func (h *fakeHub) Take(_ int, q delivery.Queue, want int, _ delivery.Head) delivery.Slots {
	if want == 0 {
		h.taken++
	}
	return delivery.Slots{Served: h.served[q]}
}

// TestRoomsFollowTheDispatcher: a queue is closed until the dispatcher reports room, or its first consumer.
func TestRoomsFollowTheDispatcher(t *testing.T) {
	queues := []delivery.Queue{{Kind: "worker", Address: "a"}, {Kind: "worker", Address: "b"}, {Kind: "http", Address: "c"}}
	hub := &fakeHub{served: map[delivery.Queue]bool{}}
	r, rng := newRooms(3, hub), rand.New(rand.NewPCG(3, 4))
	blocked, unserved := map[delivery.Queue]bool{}, map[delivery.Queue]bool{}
	for i := range 10_000 {
		q := queues[rng.IntN(len(queues))]
		switch rng.IntN(5) {
		case 0:
			r.opened([]delivery.Queue{q}, nil)
			delete(blocked, q)
		case 1:
			r.opened(nil, []delivery.Queue{q})
			delete(blocked, q)
			delete(unserved, q)
		case 2:
			hub.served[q] = rng.IntN(2) == 0
			if got := r.served(q); got != hub.served[q] {
				t.Fatalf("step %d: served is %v", i, got)
			} else if !got {
				unserved[q] = true
			}
		case 3:
			r.serveQueue(nil, partition.Waiting{Queue: q, Now: 1}, 0)
			if hub.served[q] {
				blocked[q] = true
			} else {
				unserved[q] = true
			}
		default:
			before := hub.taken
			if r.giveBack([]delivery.Queue{q}); hub.taken > before == blocked[q] {
				t.Fatalf("step %d: slots of a queue are given back: %v, blocked: %v", i, hub.taken > before, blocked[q])
			}
		}
		if r.closed(q) != (blocked[q] || unserved[q]) {
			t.Fatalf("step %d: closed is %v", i, r.closed(q))
		}
	}
}
