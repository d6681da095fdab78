package brokertarget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Options configure the targets of a kind.
type Options struct {
	// Payloads are those that deliveries refer to. Nil: none can be read.
	Payloads dispatch.Payloads
	// Now reads the wall clock; default time.Now.
	Now func() time.Time
	// Log gets which brokers are away, and that they are back. Default: no log.
	Log *slog.Logger
}

// Limits and defaults.
const (
	// DefaultInFlight is the most messages of one queue that are not acknowledged.
	DefaultInFlight = 1024
	// MaxInFlight is the greatest that may be configured.
	MaxInFlight = 100_000
	// DefaultAwaiting is the most runs of one queue, on one node, that a consumer is to complete.
	DefaultAwaiting = 100_000
	// MaxAwaiting is the greatest that may be configured.
	MaxAwaiting = 10_000_000
	// MaxStoredPayload is the largest payload, kept apart from its job, that is sent: it must be in memory.
	MaxStoredPayload = 32 << 20
	// DefaultTimeout is that of a delivery that has none.
	DefaultTimeout = 30 * time.Second

	payloadsPerBroker = 2 * MaxStoredPayload
	// readWithin is how long the payloads of one batch may take to be read.
	readWithin = 10 * time.Second

	firstPause = time.Second
	lastPause  = 30 * time.Second

	// overdue is how long after an attempt's timeout its client may take to say what became of the message.
	overdue = 2 * time.Second
)

// Transport is the [dispatch.Transport] of one kind of brokers.
type Transport struct {
	kind    string
	set     *Set
	options Options

	flights *dispatch.Flights[*flight]
	stop    context.Context
	end     context.CancelFunc // ends what is under way
	work    sync.WaitGroup     // of senders and settlers

	mu     sync.Mutex
	paused map[*queue]struct{}
}

// New returns the transport of a kind of brokers.
func New(kind string, set *Set, o Options) *Transport {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Transport{kind: kind, set: set, options: o, paused: map[*queue]struct{}{},
		flights: dispatch.NewFlights(func(f *flight) string { return f.delivery.Run.Token })}
	t.stop, t.end = context.WithCancel(context.Background())
	set.onChange(t.retry)
	return t
}

// Open implements [dispatch.Transport].
func (t *Transport) Open(name delivery.Queue, s *dispatch.Subscription) (dispatch.Consumer, int) {
	broker, _, _ := strings.Cut(name.Address, "/")
	limit := t.set.inFlight(t.kind, broker)
	return &queue{transport: t, subscription: s, broker: broker, room: newRoom(limit)}, limit
}

// Refuses implements [dispatch.Refuser].
func (t *Transport) Refuses(address string) string {
	broker, _, _ := strings.Cut(address, "/")
	return t.set.refuses(t.kind, broker)
}

// retry lets the queues that pause try again, since the brokers have changed.
func (t *Transport) retry() {
	t.mu.Lock()
	paused := slices.Collect(maps.Keys(t.paused))
	t.mu.Unlock()
	for _, q := range paused {
		q.resume(true)
	}
}

// pausing notes whether a queue pauses.
func (t *Transport) pausing(q *queue, paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if paused {
		t.paused[q] = struct{}{}
	} else {
		delete(t.paused, q)
	}
}

// errStopped is why an attempt ends that this node cannot wait for.
var errStopped = errors.New("interrupted: the node is shutting down, the broker may have it")

// Drain implements [dispatch.Transport]. What has not been sent is handed back. What the broker may have when
// ctx ends is reported as failed: only the job's policy can say whether to try again.
func (t *Transport) Drain(ctx context.Context) error {
	landed := t.flights.Leave()
	var err error
	select {
	case <-landed:
	case <-ctx.Done():
		err = ctx.Err()
		t.end()
		all := t.flights.All()
		for _, f := range all {
			f.finishUngiven(outcome{unsent: "the node is leaving", ours: true})
		}
		t.awaitTruth(all, landed)
	}
	t.end()
	t.work.Wait()
	return err
}

// awaitTruth waits until everything has ended; clients have a moment to say what became of their messages.
func (t *Transport) awaitTruth(all []*flight, landed <-chan struct{}) {
	moment := time.NewTimer(overdue)
	defer moment.Stop()
	select {
	case <-landed:
		return
	case <-moment.C:
	}
	for _, f := range all {
		f.finish(outcome{report: &delivery.Report{Result: carillon.Result{Message: errStopped.Error()}}})
	}
	<-landed
}

// Close implements [dispatch.Transport].
func (t *Transport) Close() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.Drain(now) // it only reports that attempts were ended
	t.mu.Lock()
	paused := slices.Collect(maps.Keys(t.paused))
	t.mu.Unlock()
	for _, q := range paused {
		q.close()
	}
	return nil
}

// tooLarge is the message of an attempt whose payload is never sent.
func tooLarge(size int64) string {
	return fmt.Sprintf("its payload has %d bytes; more than %d are not sent to a broker", size, MaxStoredPayload)
}

// late is the message of an attempt whose time is over.
func late(timeout time.Duration) string {
	return fmt.Sprintf("timeout: %s, the broker may have it", silence(timeout))
}

// silence says that nothing was acknowledged.
func silence(timeout time.Duration) string {
	return "no acknowledgement within " + schedule.Brief(timeout)
}
