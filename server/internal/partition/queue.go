package partition

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Queue is the unit that credits are granted for: a worker queue, the host of HTTP targets, or an app or
// actor type of Dapr.
type Queue struct {
	Namespace string
	Kind      string // the target's kind: "worker", "http" or "dapr"
	Address   string // a worker queue, a host with port, app/APP or actor/TYPE
}

// String returns the queue as the store names it. Names contain no zero byte.
func (q Queue) String() string { return q.Namespace + "\x00" + q.Kind + "\x00" + q.Address }

// Compare orders queues by namespace, kind and address.
func (q Queue) Compare(o Queue) int {
	return cmp.Or(cmp.Compare(q.Namespace, o.Namespace), cmp.Compare(q.Kind, o.Kind), cmp.Compare(q.Address, o.Address))
}

// ParseQueue decodes what String returned.
func ParseQueue(s string) Queue {
	ns, rest, _ := strings.Cut(s, "\x00")
	kind, address, _ := strings.Cut(rest, "\x00")
	return Queue{ns, kind, address}
}

// Plain returns the queue itself, where q names runs of it that are parked for want of a permit; otherwise q.
func (q Queue) Plain() Queue {
	q.Address, _, _ = strings.Cut(q.Address, "\x00")
	return q
}

// QueueOf returns the queue of a job's target.
func QueueOf(namespace string, t carillon.Target) Queue {
	q := Queue{Namespace: namespace, Kind: t.Kind()}
	switch {
	case t.Worker != nil:
		q.Address = t.Worker.Queue
	case t.HTTP != nil:
		if u, err := url.Parse(t.HTTP.URL); err == nil {
			q.Address = u.Host
		}
	case t.Dapr != nil:
		q.Address = t.Dapr.Address()
	}
	return q
}

// concurrencyKey returns the key that the limits of Dapr's sidecars apply to, besides the queue.
func concurrencyKey(t *carillon.Target) string {
	if t.Dapr == nil {
		return ""
	}
	return t.Dapr.ConcurrencyKey
}

// Head describes the run that goes next in a queue of a partition. Dispatch compares partitions by it.
type Head struct {
	Priority uint8 // rank
	Due      int64 // UTC ns
}

// Before reports whether h goes first.
func (h Head) Before(o Head) bool {
	if h.Priority != o.Priority {
		return h.Priority < o.Priority
	}
	return h.Due < o.Due
}

// Slots answers a partition that asks for room in a queue.
type Slots struct {
	N       int  // free slots, each for one delivery
	Served  bool // the queue has consumers
	Durable bool // some consumers take only attempts that are durable already
}

// Delivery is one attempt on its way to a consumer.
type Delivery struct {
	Partition int // where it comes from
	Queue     Queue
	Durable   bool          // the attempt is durable already
	Run       *carillon.Run // with Token, Data, Metadata, Deadline and Lease; not shared with anything
	Target    carillon.Target
	Timeout   time.Duration
	Key       string // runs of a queue with the same key may be limited together; "": none
}

// Cancel tells a consumer to stop an attempt.
type Cancel struct {
	Queue Queue
	Token string
	RunID string
	// Unheard means that the attempt ended because nothing was heard of it in time.
	Unheard bool
}
