package store

import "github.com/carillonhq/carillon"

// EventList is what happened by one batch, as a metadata record (KindEvents) of that batch. The key is its
// number, eight bytes, big endian: the records of a partition are numbered in the order of its batches.
type EventList struct {
	List []Event
}

// Event is something that happened to a job or a run. Times are UTC nanoseconds since 1970; 0: none. The
// fields are those of [carillon.Event].
type Event struct {
	Type       carillon.EventType
	Time       int64
	Key        carillon.Key
	Generation uint64
	Run        RunID // of skipped times, too, which have no id for callers
	Attempt    int
	Reason     string
	Error      string
	RetryAt    int64
	Skipped    uint64
	From       int64
	Late       int64 // ns
}

// Watched says how long the events of a partition are recorded, and which of them are kept. It is a metadata
// record (KindWatched) with an empty key.
type Watched struct {
	Until int64  // UTC ns
	Last  uint64 // number of the newest Events when this was written; there may be newer ones
	// Floor is the smallest number after which nothing is missing: what has happened since that record is in
	// the records after it.
	Floor  uint64
	Oldest uint64 // no record has a smaller number
	Marks  []EventMark
}

// EventMark counts the records of events up to one, since the mark before.
type EventMark struct {
	Last   uint64 // the record's number
	Events uint64 // in the records
	Time   int64  // when the last one was recorded, UTC ns
}
