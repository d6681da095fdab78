package store

import "github.com/carillonhq/carillon"

// EventList is what happened by one batch, as a metadata record (KindEvents) of that batch. The key is its
// number, eight bytes, big endian: the records of a partition are numbered in the order of its batches.
type EventList struct {
	List []Event
	// Unrecorded: since the record before this one, which has no events, only those were recorded that
	// webhooks ask for.
	Unrecorded bool
}

// Event is something that happened to a job, a run, a queue or a node. Times are UTC nanoseconds since
// 1970; 0: none. The fields are those of [carillon.Event].
type Event struct {
	Type       carillon.EventType
	Time       int64
	Key        carillon.Key
	Generation uint64
	Run        RunID // of skipped times, too, which have no id for callers
	Attempt    int
	Reason     string
	Error      string
	Sealed     bool // Error is encrypted, with Reason
	RetryAt    int64
	Skipped    uint64
	From       int64
	Late       int64 // ns
	Queue      string
	QueueKind  string
	Node       string
}

// Told is what was last told, by an event, of a node or a queue: a metadata record (KindTold).
type Told struct {
	Nonce   uint64 // of the node's process; 0: it is about a queue
	Leaving bool   // the node has said that it leaves
	Since   int64  // since when the queue is unserved, UTC ns
}

// Watched says how long the events of a partition are recorded, and which of them are kept. It is a metadata
// record (KindWatched) with an empty key.
type Watched struct {
	Until int64  // UTC ns; everything is recorded until then
	Last  uint64 // number of the newest Events when this was written; there may be newer ones
	// Floor is the smallest number after which nothing is missing that webhooks have asked for: what has
	// happened since that record is in the records after it.
	Floor  uint64
	Oldest uint64 // no record has a smaller number
	Marks  []EventMark
	// Whole is the smallest number after which every event was recorded, and not just those that webhooks ask
	// for, unless some were deleted since.
	Whole uint64
}

// EventMark counts the records of events up to one, since the mark before.
type EventMark struct {
	Last   uint64 // the record's number
	Events uint64 // in the records
	Time   int64  // when the last one was recorded, UTC ns
}
