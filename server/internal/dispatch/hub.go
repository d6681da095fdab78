package dispatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Options configure a hub.
type Options struct {
	// Accept opens the session of a worker that connects. If nil, no worker can connect.
	Accept func(ctx context.Context, h *Hub, hello carillon.Hello) (carillon.Session, error)
	// Transports serve the kinds of target that need no connected consumer, by kind ("http").
	Transports map[string]Transport
	// Chunk is the most slots that a waiting partition is given at a time; default 64.
	Chunk int
	// IdleQueue is how long a queue of a transport must be idle before it is dropped; default 1 min. It may
	// take twice as long, since the hub looks once per IdleQueue.
	IdleQueue time.Duration
	// SlowStart bounds what is in flight after a start with a backlog; the zero value sets no bound.
	SlowStart SlowStart
	// Arrival is how long workers may take to connect to this node: after its start, after that of another
	// node, and after they have lost the node that they came through. Until then [Hub.Advise] calls no queue
	// unserved. 0: workers connect to no node but this one.
	Arrival time.Duration
	// Now reads the wall clock; default time.Now.
	Now func() time.Time
}

// Defaults of the options.
const (
	DefaultChunk     = 64
	DefaultIdleQueue = time.Minute
)

// Hub brings attempts to consumers. Its methods do not block and may be called from any goroutine.
type Hub struct {
	options Options
	sink    Sink

	mu            sync.Mutex
	queues        map[delivery.Queue]*queue
	paused        map[delivery.Queue]bool
	awaited       map[delivery.Queue]*awaited
	handing       *sync.WaitGroup // deliveries on their way to consumers, since queues were last paused
	registrations map[*Registration]struct{}
	joined        uint64 // registrations so far
	draining      bool
	version       uint64      // of nodes
	nodes         []string    // addresses, this one's first
	sweeper       *time.Timer // nil while no transport has a queue
	slow          slow
	absence       absence
	departures    departures
}

// New returns a hub that passes what consumers report to s.
func New(s Sink, o Options) *Hub {
	o.Chunk = cmp.Or(o.Chunk, DefaultChunk)
	o.IdleQueue = cmp.Or(o.IdleQueue, DefaultIdleQueue)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hub{
		options: o, sink: s, queues: map[delivery.Queue]*queue{}, registrations: map[*Registration]struct{}{},
		handing: &sync.WaitGroup{}, awaited: map[delivery.Queue]*awaited{},
		slow: newSlow(o.SlowStart, o.Now()), absence: newAbsence(o.Arrival),
		departures: departures{},
	}
}

// Sink returns the sink that consumers report to.
func (h *Hub) Sink() Sink { return h.sink }

// Now returns the node's wall-clock time.
func (h *Hub) Now() time.Time { return h.options.Now() }

// Connect opens a worker's session for a caller in another process. Callers in this process use [Hub.Local].
func (h *Hub) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	if h.options.Accept == nil {
		return nil, carillon.Errorf(carillon.FailedPrecondition, "", "this node takes no workers")
	}
	return h.options.Accept(ctx, h, hello)
}

// Local returns the hub for callers in this process. Their handlers may end the process, so every attempt
// that their sessions get is durable first.
func (h *Hub) Local() carillon.Work { return local{h} }

type local struct{ hub *Hub }

// Connect opens a session of a worker in this process.
func (l local) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	return l.hub.Connect(context.WithValue(ctx, localKey{}, true), hello)
}

// localKey marks the context of a connection from within the process. Nothing that comes over a network can
// set it.
type localKey struct{}

// IsLocal reports whether a connection comes from within the process.
func IsLocal(ctx context.Context) bool { return ctx.Value(localKey{}) != nil }

// SetNodes tells present and future workers the addresses of all nodes, this one first. The slice is kept.
func (h *Hub) SetNodes(addresses []string) {
	var n notifications
	h.mu.Lock()
	h.version++
	if slices.ContainsFunc(addresses, func(a string) bool { return !slices.Contains(h.nodes, a) }) {
		h.absence.begin()
	}
	h.nodes = addresses
	version, all := h.version, h.present()
	h.settle(&n, h.sorted()...)
	h.unlock(&n)
	for _, r := range all {
		r.passNodes(version, addresses)
	}
}

// Drain stops deliveries, tells the workers to connect elsewhere and waits until the transports have finished
// what they have begun. When ctx ends, it ends that by force. Results are accepted until [Hub.Close].
func (h *Hub) Drain(ctx context.Context) error {
	for _, r := range h.stop() {
		r.worker.Drain()
	}
	return h.transports(func(t Transport) error { return t.Drain(ctx) })
}

// EndStreams ends the sessions of workers whose attempts end with them, and reports whether there were any.
func (h *Hub) EndStreams() (some bool) {
	for _, r := range h.stop() {
		if _, ends := r.worker.(StreamBound); ends {
			_ = r.worker.Close() // a session ends whatever it returns
			some = true
		}
	}
	return some
}

// Close ends every session and every request at once.
func (h *Hub) Close() error {
	for _, r := range h.stop() {
		_ = r.worker.Close() // a session ends whatever it returns
	}
	return h.transports(Transport.Close)
}

// stop prevents new deliveries and returns the registrations, oldest first.
func (h *Hub) stop() []*Registration {
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	h.draining = true
	if h.sweeper != nil {
		h.sweeper.Stop()
	}
	h.slow.end()
	h.settle(&n, h.sorted()...)
	return h.present()
}

// present returns the registrations, oldest first.
func (h *Hub) present() []*Registration {
	return slices.SortedFunc(maps.Keys(h.registrations),
		func(a, b *Registration) int { return cmp.Compare(a.nth, b.nth) })
}

// transports calls f for all transports at once.
func (h *Hub) transports(f func(Transport) error) error {
	kinds := slices.Sorted(maps.Keys(h.options.Transports))
	errs := make([]error, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		all.Go(func() { errs[i] = f(h.options.Transports[kind]) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// keepSweeping makes sure that sweep is called now and then.
func (h *Hub) keepSweeping() {
	if h.sweeper == nil {
		h.sweeper = time.AfterFunc(h.options.IdleQueue, h.sweep)
	}
}

// sweep drops the queues of transports that have been idle since the last sweep.
func (h *Hub) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := false
	for _, q := range h.queues {
		left = h.sweepIdle(q) || left
	}
	if !left || h.draining {
		h.sweeper = nil
		return
	}
	h.sweeper.Reset(h.options.IdleQueue)
}

// sweepIdle drops a queue of a transport that has been idle since the last sweep. It reports whether to look
// again.
func (h *Hub) sweepIdle(q *queue) (left bool) {
	switch {
	case !q.opened:
		return false
	case q.unused && q.idle():
		delete(h.queues, q.name)
		return false
	}
	q.unused = true
	return true
}
