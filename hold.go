package carillon

import "time"

// Hold is what keeps a run from going on, as the owner of its partition saw it when it was asked. Nothing of
// it is stored.
type Hold struct {
	Code  string    // one of those below; later versions may have more
	Text  string    // a sentence for people
	Since time.Time // since when the run has waited for it; zero: not known
	Until time.Time // when it ends by itself; zero: it does not, or that is not known
}

// The codes of holds.
const (
	HoldStarting  = "starting"   // nothing keeps it: it is about to be handed out
	HoldNotDue    = "not_due"    // its time has not come
	HoldPaused    = "paused"     // the job is paused
	HoldDependsOn = "depends_on" // jobs of DependsOn have yet to succeed
	HoldRetrying  = "retrying"   // the time of its next attempt has not come
	HoldOverlap   = "overlap"    // the previous run of the job is unfinished

	HoldQueuePaused   = "queue_paused"   // its queue is paused
	HoldNoConsumer    = "no_consumer"    // nobody serves its queue
	HoldSilentWorkers = "silent_workers" // those who serve it have to give a sign of life first
	HoldNoCredit      = "no_credit"      // those who serve it have no room
	HoldBackoff       = "backoff"        // the HTTP host asked for fewer requests, or the broker takes nothing
	HoldSlowStart     = "slow_start"     // the node has started with a backlog, and hands out little at a time
	HoldNodeLeaving   = "node_leaving"   // the node ends, and hands out nothing more
	HoldLimit         = "limit"          // its concurrency key has no permit left
	HoldNamedLimit    = "named_limit"    // nor has its actor type, which a Dapr sidecar has limited
	HoldRate          = "rate_limit"     // the rate of its concurrency key or namespace lets none begin yet
	HoldQuota         = "quota"          // its namespace has as many attempts in force as it may
	HoldStaged        = "staged"         // it is parked in the store; a list does not know why

	HoldPartitionUnowned = "partition_unowned" // no node that can be reached owns its partition
	HoldStoreAway        = "store_away"        // the store does not take writes
)
