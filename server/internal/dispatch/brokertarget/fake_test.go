package brokertarget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/store"
)

// script is a client of a broker that does what a test says.
type script struct {
	publish func(ctx context.Context, ms []broker.Message, done func(i int, err error))

	mu     sync.Mutex
	closed bool
}

func (c *script) Publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	c.mu.Lock()
	publish := c.publish
	c.mu.Unlock()
	publish(ctx, ms, done)
}

func (c *script) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *script) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// does changes what the client does.
func (c *script) does(f func(ctx context.Context, ms []broker.Message, done func(i int, err error))) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.publish = f
}

// all is a script that ends all messages at once, in the same way.
func all(err error) func(context.Context, []broker.Message, func(int, error)) {
	return func(_ context.Context, ms []broker.Message, done func(int, error)) {
		for i := range ms {
			done(i, err)
		}
	}
}

var (
	errAway    = errors.Join(broker.ErrUnsent, errors.New("it is away"))
	errRefused = errors.Join(broker.ErrRefused, errors.New("too large"))
	errCut     = errors.New("connection: cut")
)

// rig is a transport of one broker, under a hub whose partition delivers what it is told to.
type rig struct {
	t         *testing.T
	hub       *dispatch.Hub
	set       *Set
	transport *Transport
	clients   []*script // that were made, in order

	mu      sync.Mutex
	reports map[string]delivery.Report // by token
	back    map[string]int             // undelivered, by token
	given   int                        // slots that the partition got since it began to wait
}

const inFlight = 8

var inQueue = delivery.Queue{Namespace: "default", Kind: "nats", Address: "events/runs.a"}

// newRig has one broker, of the name events, whose client does as the script says.
func newRig(t *testing.T, o Options, publish func(context.Context, []broker.Message, func(int, error))) *rig {
	t.Helper()
	r := &rig{t: t, reports: map[string]delivery.Report{}, back: map[string]int{}}
	r.set = NewSet(map[string]broker.New{"nats": func(s broker.Settings) (broker.Client, error) {
		if s.User == "wrong" {
			return nil, errors.New("user: wrong")
		}
		c := &script{publish: publish}
		r.clients = append(r.clients, c)
		return c, nil
	}})
	r.transport = New("nats", r.set, o)
	r.hub = dispatch.New(r, dispatch.Options{Transports: map[string]dispatch.Transport{"nats": r.transport}})
	if publish != nil {
		r.apply("1")
	}
	return r
}

// apply puts the broker in force; another mark makes it another one.
func (r *rig) apply(mark string) {
	r.t.Helper()
	if err := r.set.Apply(map[string]Broker{"events": {Print: mark,
		Settings: broker.Settings{Kind: "nats", InFlight: inFlight}}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) client() *script { return r.clients[len(r.clients)-1] }

func (r *rig) close() {
	r.t.Helper()
	if err := errors.Join(r.hub.Close(), r.set.Close()); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) Reports(rs []delivery.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range rs {
		if _, twice := r.reports[one.Token]; twice {
			r.t.Errorf("%s is reported twice", one.Token)
		}
		r.reports[one.Token] = one
	}
}

func (r *rig) Heartbeats([]carillon.Heartbeat, delivery.Reporter) {}
func (r *rig) Consumers(delivery.Queue)                           {}
func (r *rig) Lost([]string)                                      {}

func (r *rig) Slots(_ delivery.Owner, _ delivery.Queue, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given += n
}

func (r *rig) Undelivered(tokens []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, token := range tokens {
		r.back[token]++
	}
}

// attempt is an attempt of a job for the queue.
func attempt(seq int) delivery.Delivery {
	id := store.RunID{Scheduled: 1_800_000_000_000_000_000, Seq: uint64(seq)}.String()
	return delivery.Delivery{
		Queue:  inQueue,
		Target: carillon.Target{NATS: &carillon.NATSTarget{Server: "events", Subject: "runs.a"}},
		Run: &carillon.Run{ID: id, Namespace: "default", Job: "reports/nightly", Token: "token-" + id, Attempt: 1,
			Scheduled: time.Unix(1_800_000_000, 0), Deadline: time.Unix(1_800_000_030, 0), Data: carillon.JSON("x")},
		Timeout: time.Minute,
	}
}

// slots asks for slots, and takes those that are free at once.
func (r *rig) slots(want int) int {
	lineup := []delivery.Waiting{{Queue: inQueue, N: want, Now: want}}
	r.hub.Offer(delivery.Owner{}, lineup)
	return lineup[0].Slots.N
}

// room is how many deliveries may be sent now; the slots are given back.
func (r *rig) room() int {
	n := r.slots(10 * inFlight)
	r.hub.Deliver(0, nil, []delivery.Rest{{Queue: inQueue, Unused: n}})
	return n
}

// deliver delivers, in slots that must be free.
func (r *rig) deliver(ds ...delivery.Delivery) {
	r.t.Helper()
	if n := r.slots(len(ds)); n != len(ds) {
		r.t.Fatalf("%d slots, not %d", n, len(ds))
	}
	r.hub.Deliver(0, ds, nil)
}

// deliverAndLeave delivers in slots that it has, gives back those that came meanwhile and waits for no more.
func (r *rig) deliverAndLeave(ds []delivery.Delivery) {
	r.mu.Lock()
	came := r.given
	r.given = 0
	r.mu.Unlock()
	r.hub.Deliver(0, ds, []delivery.Rest{{Queue: inQueue, Unused: came}})
}

// attempts are n attempts, beginning at seq.
func attempts(seq, n int) []delivery.Delivery {
	ds := make([]delivery.Delivery, n)
	for i := range ds {
		ds[i] = attempt(seq + i)
	}
	return ds
}

// report is the report of an attempt; ok: there is one.
func (r *rig) report(seq int) (one delivery.Report, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok = r.reports[attempt(seq).Run.Token]
	return one, ok
}

// handedBack is how often an attempt was handed back.
func (r *rig) handedBack(seq int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.back[attempt(seq).Run.Token]
}
