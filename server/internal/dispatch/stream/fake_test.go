package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx   = context.Background()
	queue = delivery.Queue{Namespace: "n", Kind: "worker", Address: "q"}
)

// consumer is the least session: it holds what it is delivered. It is its own hub's sink, too.
type consumer struct {
	*Stream
	hub *dispatch.Hub
	now time.Time

	mu          sync.Mutex
	undelivered []string
}

// connect opens a stream with a number of credits.
func connect(t *testing.T, credits int, o Options) *consumer {
	t.Helper()
	c := &consumer{now: time.Now()}
	c.hub = dispatch.New(c, dispatch.Options{Now: func() time.Time { return c.now }})
	r := c.hub.Register(ctx, c, queue.Kind,
		carillon.Hello{Namespace: queue.Namespace, Queues: []string{queue.Address}})
	r.Credits = credits
	o.Consumer = "consumer"
	c.Stream = New(c.hub, r, o)
	if err := r.Join(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *consumer) Deliver(ds []delivery.Delivery) bool {
	c.Lock()
	defer c.Unlock()
	if !c.Open() {
		return false
	}
	as := c.Attempts(ds)
	for i := range as {
		if before := c.Release(as[i].Token); before != nil && before.Number > 0 {
			c.Free(before, 0)
		}
		c.Hold(&as[i])
	}
	c.Announce()
	return true
}

func (c *consumer) Cancel(string) {}
func (c *consumer) Drain()        {}
func (c *consumer) Close() error  { c.End(Closed()); return nil }

func (c *consumer) Reports([]delivery.Report)                          {}
func (c *consumer) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}
func (c *consumer) Slots(delivery.Owner, delivery.Queue, int)          {}
func (c *consumer) Consumers(delivery.Queue)                           {}
func (c *consumer) Lost([]string)                                      {}

func (c *consumer) Undelivered(tokens []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undelivered = append(c.undelivered, tokens...)
}

// release does what a session does with a result.
func (c *consumer) release(token string) {
	c.Lock()
	defer c.Unlock()
	if a := c.Release(token); a != nil && a.Number > 0 {
		c.Free(a, 1)
	}
}

// next is for [Receive].
func (c *consumer) next(left *Budget) ([]string, bool) {
	tokens := Take(c.Stream, left, func(a *Attempt) string { return a.Token })
	return tokens, len(tokens) > 0
}

func (c *consumer) receive(t *testing.T) []string {
	t.Helper()
	got, err := Receive(ctx, c.Stream, c.next)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func token(i int) string { return fmt.Sprintf("token-%02d", i) }

// tokens returns those of [from, to).
func tokens(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, token(i))
	}
	return all
}

// deliver takes slots for runs [from, to) and uses them.
func (c *consumer) deliver(t *testing.T, from, to, payload int) {
	t.Helper()
	if n := offer(c.hub, 0, queue, to-from, delivery.Head{}).N; n != to-from {
		t.Fatalf("took %d of %d", n, to-from)
	}
	var ds []delivery.Delivery
	for i := from; i < to; i++ {
		ds = append(ds, delivery.Delivery{Queue: queue, Run: &carillon.Run{Token: token(i), Started: c.now,
			Data: carillon.Bytes(make([]byte, payload), "")}})
	}
	c.hub.Deliver(0, ds, nil)
}

// slots compares what the hub counts.
func (c *consumer) slots(t *testing.T, inFlight, credits int) {
	t.Helper()
	if q := c.hub.Queues()[0]; q.InFlight != inFlight || q.Credits != credits {
		t.Errorf("%d in flight, %d credits, not %d and %d", q.InFlight, q.Credits, inFlight, credits)
	}
}

func (c *consumer) handedBack(t *testing.T, want []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.undelivered, want) {
		t.Errorf("handed back %v, not %v", c.undelivered, want)
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// offer asks for slots of one queue.
func offer(h *dispatch.Hub, p int, q delivery.Queue, want int, head delivery.Head) delivery.Slots {
	lineup := []delivery.Waiting{{Queue: q, N: want, Now: want, Head: head}}
	h.Offer(delivery.Owner{Partition: p}, lineup)
	return lineup[0].Slots
}
