package delivery

import (
	"cmp"
	"time"

	"github.com/carillonhq/carillon"
)

// Head describes the run that goes next in a queue of a partition. Dispatch compares partitions by it.
type Head struct {
	Priority uint8 // rank
	Due      int64 // UTC ns
}

// Compare is negative if h goes before o.
func (h Head) Compare(o Head) int {
	if h.Priority != o.Priority {
		return cmp.Compare(h.Priority, o.Priority)
	}
	return cmp.Compare(h.Due, o.Due)
}

// Rest is what a partition has left in a queue after it has used slots.
type Rest struct {
	Queue  Queue
	Unused int  // slots that it does not need
	N      int  // due runs that still wait
	Head   Head // of these
}

// Awaited is how many attempts of a queue a partition has in force that a consumer at a broker completes.
type Awaited struct {
	Queue Queue
	N     int
}

// Owner is a partition under one term of this node.
type Owner struct {
	Partition    int
	Epoch, Nonce uint64
}

// Waiting describes one queue in which due runs of a partition wait.
type Waiting struct {
	Queue   Queue
	N       int  // runs in memory; 0: all are in the store
	Now     int  // how many of them may be handed out before the partition has read more of its backlog
	Head    Head // of those in memory
	Alike   int  // how many of those in memory have the head's priority
	Overdue Overdue
	Slots   Slots
}

// Overdue are those of a queue's runs in memory that became due while the store was away, in a catch-up.
type Overdue struct {
	N     int
	Head  Head // the first of those of the highest priority
	Alike int  // how many have its priority
}

// Slots are what a partition has of a queue.
type Slots struct {
	N       int  // slots, each for one delivery
	Served  bool // the queue has consumers
	Durable bool // some consumers take only attempts that are durable already
}

// Delivery is one attempt on its way to a consumer.
type Delivery struct {
	Partition int // where it comes from
	Queue     Queue
	Durable   bool          // the attempt is durable already
	StoreAway bool          // it leaves although the store does not answer
	Run       *carillon.Run // with Token, Data, Metadata, Deadline and Lease; not shared with anything
	Target    carillon.Target
	Timeout   time.Duration
	Trace     Trace // for the consumer; empty: none
}

// What says, in the metadata of a worker's run, that it left although the store does not answer.
const (
	StoreKey    = "carillon-store"
	StoreIsAway = "away"
)

// Cancel tells a consumer to stop an attempt.
type Cancel struct {
	Queue Queue
	Token string
	// Unheard means that the attempt ended because nothing was heard of it in time.
	Unheard bool
}

// Fired describes one attempt that was handed to a consumer.
type Fired struct {
	Queue    Queue
	Attempt  int
	Retry    bool          // the attempt counts as a retry, as [carillon.Counters] has it
	Lateness time.Duration // since the attempt was due or the job was put, whichever is later
	Trace    Trace         // that its consumer gets
}

// Finished describes a run that has ended.
type Finished struct {
	Queue  Queue
	Status carillon.RunStatus
	Took   time.Duration // since it was first handed to a consumer; negative: it never was
	Trace  Trace         // of its last attempt, if spans are made
}
