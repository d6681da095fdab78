package stream

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestStateOnlyAdvances(t *testing.T) {
	for from := open; from <= ended; from++ {
		for to := leaving; to <= ended; to++ {
			s := from
			if moved := s.advance(to); moved != (from < to) || s != max(from, to) {
				t.Errorf("from %d to %d: %v, %d", from, to, moved, s)
			}
		}
	}
}

func TestReleaseFreesWhatWasNotReceived(t *testing.T) {
	c := connect(t, 3, Options{})
	defer c.Close()
	c.deliver(t, 0, 1, 0)
	c.receive(t)
	c.deliver(t, 1, 2, 0)
	c.slots(t, 2, 1)
	c.Lock()
	received, waited := c.Release(token(0)), c.Release(token(1))
	c.Unlock()
	c.slots(t, 1, 2)
	if received.Number != 1 || !received.Known || waited.Number != 0 || waited.Known {
		t.Errorf("%+v, %+v", received, waited)
	}
	c.Lock()
	c.Free(received, 1)
	c.Unlock()
	c.slots(t, 0, 3)
	if c.Lock(); !c.HoldsNone() || c.Release(token(0)) != nil {
		t.Error("it is still held")
	}
	c.Unlock()
}

// TestRandomSteps delivers, receives, releases and gives back at random: each credit is of one attempt or
// unused, and none waits that was released.
func TestRandomSteps(t *testing.T) {
	const credits = 20
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := connect(t, credits, Options{Bounds: Bounds{MessageItems: 4, PendingBytes: 3000}})
		held := map[string]bool{} // true: received
		for range 200 {
			switch i := rnd.IntN(40); rnd.IntN(4) {
			case 0:
				if len(held) < credits-1 && c.hub.Queues()[0].Credits > 0 {
					c.deliver(t, i, i+1, rnd.IntN(500))
					held[token(i)] = false
				}
			case 1:
				c.Lock()
				got, _ := c.next(&Budget{1000, 4})
				c.Unlock()
				for _, token := range got {
					if received, is := held[token]; !is || received {
						t.Fatalf("seed %d: %s was received", seed, token)
					}
					held[token] = true
				}
			case 2:
				before := c.hub.Queues()[0]
				c.release(token(i))
				if _, is := held[token(i)]; !is && c.hub.Queues()[0] != before {
					t.Fatalf("seed %d: what was not held changed the slots", seed)
				}
				delete(held, token(i))
			case 3:
				c.Lock()
				if a := c.Held(token(i)); a != nil && a.Number == 0 {
					c.GiveBack(a)
					delete(held, token(i))
				}
				c.Unlock()
			}
			if q := c.hub.Queues()[0]; q.InFlight != len(held) {
				t.Fatalf("seed %d: %d in flight, %d held", seed, q.InFlight, len(held))
			}
		}
		_ = c.Close()
	}
}

func TestTooMuchHoldsCreditsBack(t *testing.T) {
	c := connect(t, 9, Options{Bounds: Bounds{PendingBytes: 10_000, MessageItems: 1}})
	defer c.Close()
	c.deliver(t, 0, 1, 8000)
	c.slots(t, 1, 8)
	c.deliver(t, 1, 2, 8000)
	c.slots(t, 2, 0)
	c.release(token(1))
	c.slots(t, 1, 8)
	c.deliver(t, 1, 4, 8000)
	if c.Lock(); !c.Overfull() {
		t.Error("twice the bound is not too much")
	}
	c.GiveBackWaiting()
	c.Unlock()
	c.slots(t, 0, 9)
	c.handedBack(t, tokens(0, 4))
}

// TestAPausedStreamKeepsNothing: it hands back what waits, has no credits, and has all of them afterwards.
func TestAPausedStreamKeepsNothing(t *testing.T) {
	c := connect(t, 9, Options{})
	defer c.Close()
	c.deliver(t, 0, 1, 0)
	c.receive(t)
	c.deliver(t, 1, 4, 0)
	c.Lock()
	c.Pause()
	c.Unlock()
	c.slots(t, 1, 0)
	c.handedBack(t, tokens(1, 4))
	c.release(token(0))
	c.slots(t, 0, 0)
	c.Lock()
	c.Resume()
	c.Unlock()
	c.slots(t, 0, 9)
}

// TestTheCreditsOfALeavingStreamStayHeld: a delivery to it would only come back.
func TestTheCreditsOfALeavingStreamStayHeld(t *testing.T) {
	c := connect(t, 9, Options{Bounds: Bounds{PendingBytes: 10_000, MessageItems: 1}})
	defer c.Close()
	c.deliver(t, 0, 2, 8000)
	c.slots(t, 2, 0)
	c.Lock()
	c.Leave()
	c.Drop()
	c.Unlock()
	c.slots(t, 2, 0)
}

func TestLeaveEndsDeliveries(t *testing.T) {
	c := connect(t, 3, Options{})
	defer c.Close()
	c.Lock()
	if !c.Leave() || c.Leave() || c.Open() || !c.Leaving() {
		t.Error("it is not leaving")
	}
	c.Unlock()
	c.deliver(t, 0, 1, 0)
	c.handedBack(t, tokens(0, 1))
}

func TestEndHandsBack(t *testing.T) {
	for name, heartbeat := range map[string]bool{"leases": false, "heartbeat": true} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, 5, Options{Heartbeat: heartbeat})
			c.deliver(t, 0, 2, 0)
			c.receive(t)
			c.deliver(t, 2, 4, 0)
			want := errors.New("first")
			c.End(want)
			c.End(errors.New("second"))
			if heartbeat {
				c.handedBack(t, tokens(0, 4))
			} else {
				c.handedBack(t, tokens(2, 4))
			}
			if _, err := Receive(ctx, c.Stream, c.next); !errors.Is(err, want) {
				t.Error(err)
			}
			if s := offer(c.hub, 0, queue, 1, delivery.Head{}); s.Served || len(c.hub.Workers()) > 0 {
				t.Error("it is still there")
			}
			if c.Deliver([]delivery.Delivery{{Queue: queue, Run: &carillon.Run{}}}) {
				t.Error("it accepts deliveries")
			}
		})
	}
}

// TestGiveBackOfAQueue: what was received stays, and what waits of other queues.
func TestGiveBackOfAQueue(t *testing.T) {
	c := connect(t, 5, Options{})
	defer c.Close()
	c.deliver(t, 0, 2, 0)
	c.receive(t)
	c.deliver(t, 2, 4, 0)
	for _, q := range []delivery.Queue{{Namespace: "n", Kind: "worker", Address: "other"}, queue} {
		c.handedBack(t, nil)
		c.Lock()
		c.GiveBackOf(q)
		c.Unlock()
	}
	c.handedBack(t, tokens(2, 4))
	c.slots(t, 2, 3)
}
