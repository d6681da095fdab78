package dispatch

import (
	"context"
	"io"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Sink receives what consumers report and what the hub has for partitions. The engine implements it. Calls
// come from any goroutine and must not block; they may call the hub back.
type Sink interface {
	// Reports hands over results, and the slice with them. Each goes to the partition named in its token; the
	// outcome is reported through From.
	Reports(rs []delivery.Report)
	// Heartbeats extends the leases of attempts; a token that is not in force is answered by from.Stale.
	Heartbeats(bs []carillon.Heartbeat, from delivery.Reporter)
	// Slots gives partition p slots of q, for which it has waited; 0: the last consumer of q has left. p
	// waits no longer, and must use the slots or return them, by [Hub.Deliver]. If the term of p has ended,
	// so have its slots, by [Hub.Forget].
	Slots(p delivery.Owner, q delivery.Queue, n int)
	// Consumers reports that q has got its first consumer: partitions look for staged runs.
	Consumers(q delivery.Queue)
	// Lost reports that attempts are lost, since their worker said goodbye: they fail at once.
	Lost(tokens []string)
	// Undelivered reports that deliveries never left the node: they use no attempt.
	Undelivered(tokens []string)
}

// Consumer accepts deliveries. The hub calls it without holding a lock; calls must not block.
type Consumer interface {
	// Deliver accepts all of the deliveries, for which the consumer has granted credits; the slice is not
	// kept. It returns false, and accepts none, if the consumer is leaving.
	Deliver(ds []delivery.Delivery) bool
	// Cancel stops the attempt with the token, if this consumer holds it. Nothing need be reported of it.
	Cancel(token string)
}

// Worker is a consumer that connected by itself and can be sent away.
type Worker interface {
	Consumer
	// Drain tells the worker that the node is leaving. Results are still accepted.
	Drain()
	Close() error
}

// StreamBound is a worker whose attempts end with its session: they are taken back then.
type StreamBound interface {
	Worker
	StreamBound()
}

// MultiNodeConsumer is a consumer that several nodes serve and that distributes its credits over them. Calls
// must not block.
type MultiNodeConsumer interface {
	Consumer
	// Wanted reports that runs of q wait on this node while the consumer has no credits there. It is not
	// repeated before the consumer has had credits again.
	Wanted(q delivery.Queue)
	// Nodes passes the addresses of all nodes, this one first. Only the greatest version counts. The slice
	// must not be changed.
	Nodes(version uint64, addresses []string)
}

// Transport serves the queues of one kind of target that needs no connected consumer. The hub opens a
// consumer when a queue is first used and drops it when it has been idle for [Options.IdleQueue].
type Transport interface {
	// Open returns the consumer of q and its initial credits. It must not call the hub or the subscription.
	Open(q delivery.Queue, s *Subscription) (c Consumer, credits int)
	// Drain waits until everything in flight has ended, and ends it by force when ctx ends.
	Drain(ctx context.Context) error
	Close() error
}

// Payloads are what deliveries refer to whose payload does not come with them.
type Payloads interface {
	// Get returns the bytes of a reference. The reader fails before it returns the last of them if they are not
	// those that were stored.
	Get(ctx context.Context, namespace string, ref carillon.PayloadRef) (io.ReadCloser, error)
	// PutOff reports whether an error of Get, or of a reader, may pass by itself, and after how long to try
	// again. Otherwise the payload is missing or damaged.
	PutOff(err error) (pause time.Duration, passes bool)
}
