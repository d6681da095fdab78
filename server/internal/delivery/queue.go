package delivery

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
)

// Queue is the unit that credits are granted for: a worker queue, the host of HTTP targets, an app or actor
// type of Dapr, or what a broker keeps apart: a topic, an exchange, a subject or a stream.
type Queue struct {
	Namespace string
	Kind      string // the target's kind: "worker", "http", "dapr", or one of [BrokerKinds]
	Address   string // a worker queue, a host with port, app/APP or actor/TYPE, BROKER/NAME
}

// BrokerKinds are the kinds of targets that are brokers.
var BrokerKinds = []string{"kafka", "amqp", "nats", "redis"}

// Sent reports whether a node sends the queue's runs by itself: no consumer need connect.
func (q Queue) Sent() bool { return q.Kind == "http" || q.Broker() }

// Broker reports whether the queue is at a broker.
func (q Queue) Broker() bool { return slices.Contains(BrokerKinds, q.Kind) }

// String returns the queue as the store names it. Names contain no zero byte.
func (q Queue) String() string { return q.Namespace + "\x00" + q.Kind + "\x00" + q.Address }

// Compare orders queues by namespace, kind and address.
func (q Queue) Compare(o Queue) int {
	return cmp.Or(cmp.Compare(q.Namespace, o.Namespace), cmp.Compare(q.Kind, o.Kind),
		cmp.Compare(q.Address, o.Address))
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

// Limited reports whether q names runs that are parked for want of a permit.
func (q Queue) Limited() bool { return strings.Contains(q.Address, "\x00") }

// Line returns the line whose parked runs q names; ok is false if q is an ordinary queue.
func (q Queue) Line() (l Line, ok bool) {
	address, key, ok := strings.Cut(q.Address, "\x00")
	q.Address = address
	return Line{Limit: Limit{q.Namespace, key}, Queue: q}, ok
}

// QueueOf returns the queue of a job's target.
func QueueOf(namespace string, t carillon.Target) Queue {
	q := Queue{Namespace: namespace, Kind: t.Kind()}
	switch {
	case t.Worker != nil:
		q.Address = t.Worker.Queue
	case t.HTTP != nil:
		if u, err := url.Parse(t.HTTP.URL); err == nil {
			q.Address = strings.ToLower(u.Host)
		}
	case t.Dapr != nil:
		q.Address = t.Dapr.Address()
	default:
		q.Address = t.BrokerAddress()
	}
	return q
}

// Backlog is what is due in a queue and waits.
type Backlog struct {
	Ready   int   // in memory, for a consumer or for room; as of the last second
	Permits int   // in memory, for a permit; as of the last second
	Staged  int   // in the store; as of the last count
	Oldest  int64 // due time of the oldest of them, UTC ns
}

// Len returns how many runs wait.
func (b Backlog) Len() int { return b.Ready + b.Permits + b.Staged }
