package dispatch

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// Sink takes what consumers say and what the hub has for partitions. The engine implements it. Calls come from any
// goroutine and must not block; they may call the hub back.
type Sink interface {
	// Reports hands over results, and the slice with them. Each goes to the partition named in its token; what became of it
	// is told through From.
	Reports(rs []partition.Report)
	// Heartbeats says that attempts are alive; a token that is not in force is answered by from.Stale.
	Heartbeats(bs []carillon.Heartbeat, from partition.Reporter)
	// Room says that partition p, which waits for slots of q, should take again: slots are reserved for it, or the last
	// consumer of q has left. It must take, be it 0, or the slots stay reserved. News of a partition that has left is ignored.
	Room(p int, q partition.Queue)
	// Consumers says that a first consumer of q has appeared: partitions look for staged runs.
	Consumers(q partition.Queue)
	// Lost says that attempts are gone, since their worker said goodbye: they fail at once.
	Lost(tokens []string)
	// Undelivered says that deliveries never left the node: no attempt is used.
	Undelivered(tokens []string)
}

// Consumer takes deliveries. The hub calls it without holding a lock; calls must not block.
type Consumer interface {
	// Deliver takes all of the deliveries, for which the consumer has granted credits; the slice is not kept. False: the
	// consumer is leaving and has taken none.
	Deliver(ds []partition.Delivery) bool
	// Cancel stops the attempt with the token, if this consumer holds it. Nothing need be reported of it.
	Cancel(token string)
}

// Worker is a consumer that came by itself and can be sent away.
type Worker interface {
	Consumer
	// Drain tells the worker that the node is leaving. Results are still taken.
	Drain()
	Close() error
}

// MultiNodeConsumer is a consumer that is served by several nodes and spreads its credits over them. Calls must not block.
type MultiNodeConsumer interface {
	Consumer
	// Wanted says that runs of q wait on this node while the consumer has no credits there. It is said once, until it has
	// had credits again.
	Wanted(q partition.Queue)
}

// NodeWatcher is a worker that is to know where the nodes are. Calls must not block.
type NodeWatcher interface {
	Worker
	// Nodes is where all nodes are, this one first; only the greatest version counts. The slice is not changed.
	Nodes(version uint64, addresses []string)
}

// Transport serves the queues of one kind of target for which nobody need connect: the hub opens a consumer when a queue
// is first used and forgets it when it has been idle for [Options.IdleQueue].
type Transport interface {
	// Open makes the consumer of q and says how many credits it begins with. It must not call the hub or the subscription.
	Open(q partition.Queue, seat *Subscription) (c Consumer, credits int)
	// Drain waits until everything in flight has ended, and ends it by force when ctx does.
	Drain(ctx context.Context) error
	Close() error
}
