package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
)

// log is a sink that remembers what it was told.
type log struct {
	mu          sync.Mutex
	rooms       []room
	consumers   []partition.Queue
	undelivered []string
}

func (l *log) Reports([]partition.Report)                          {}
func (l *log) Heartbeats([]carillon.Heartbeat, partition.Reporter) {}
func (l *log) Lost([]string)                                       {}

func (l *log) Room(p int, q partition.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rooms = append(l.rooms, room{p, q})
}

func (l *log) Consumers(q partition.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.consumers = append(l.consumers, q)
}

func (l *log) Undelivered(tokens []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.undelivered = append(l.undelivered, tokens...)
}

// take forgets and returns the news of room.
func (l *log) take() []room {
	l.mu.Lock()
	defer l.mu.Unlock()
	rooms := l.rooms
	l.rooms = nil
	return rooms
}

// fakeWorker is a worker that remembers what it got.
type fakeWorker struct {
	member *Registration

	mu      sync.Mutex
	got     []string // tokens
	deaf    bool     // takes no deliveries
	drained bool
	closed  bool
	cancels []string
	unheard []string
	pings   int
}

func (c *fakeWorker) Unheard(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unheard = append(c.unheard, token)
}

func (c *fakeWorker) Ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings++
}

func (c *fakeWorker) Deliver(ds []partition.Delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf {
		return false
	}
	for i := range ds {
		c.got = append(c.got, ds[i].Run.Token)
	}
	return true
}

func (c *fakeWorker) Cancel(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.got, token) {
		c.cancels = append(c.cancels, token)
	}
}

func (c *fakeWorker) Drain()       { c.drained = true }
func (c *fakeWorker) Close() error { c.closed = true; return nil }

// hub is a hub with its sink.
func hub(o Options) (*Hub, *log) {
	l := &log{}
	return New(l, o), l
}

func join(t testing.TB, h *Hub, queues ...string) *fakeWorker {
	t.Helper()
	c := &fakeWorker{}
	c.member = h.Register(context.Background(), c, "worker", carillon.Hello{Namespace: "n", Queues: queues, WorkerID: "w"})
	if err := c.member.Join(); err != nil {
		t.Fatal(err)
	}
	return c
}

func named(address string) partition.Queue {
	return partition.Queue{Namespace: "n", Kind: "worker", Address: address}
}

// runOf is delivery number seq of partition p.
func runOf(p int, q partition.Queue, seq int) partition.Delivery {
	id := identity.Run{Partition: uint16(p), Cause: carillon.CauseTrigger, Seq: uint64(seq)}.String()
	return partition.Delivery{Partition: p, Queue: q, Run: &carillon.Run{ID: id, Token: "token-" + id}}
}

// runsOf is n deliveries of partition p, beginning at seq.
func runsOf(p int, q partition.Queue, seq, n int) []partition.Delivery {
	ds := make([]partition.Delivery, n)
	for i := range ds {
		ds[i] = runOf(p, q, seq+i)
	}
	return ds
}

// hosts is a transport whose consumers begin with the same credits.
type hosts struct {
	credits int
	opened  []*host
	drained bool
	closed  bool
}

type host struct {
	fakeWorker
	seat *Subscription
}

func (t *hosts) Open(_ partition.Queue, s *Subscription) (Consumer, int) {
	h := &host{seat: s}
	t.opened = append(t.opened, h)
	return h, t.credits
}

func (t *hosts) Drain(context.Context) error { t.drained = true; return nil }
func (t *hosts) Close() error                { t.closed = true; return nil }

// take takes slots as a partition does that does not mind which consumers there are.
func take(h *Hub, p int, q partition.Queue, want int, head partition.Head) (n int, consumers bool) {
	s := h.Take(p, q, want, head)
	return s.N, s.Served
}

func helloFor(queue string) carillon.Hello {
	return carillon.Hello{Namespace: "n", Queues: []string{queue}, WorkerID: "w"}
}

func without(crews []*fakeWorker, gone *fakeWorker) []*fakeWorker {
	var left []*fakeWorker
	for _, c := range crews {
		if c != gone {
			left = append(left, c)
		}
	}
	return left
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }
