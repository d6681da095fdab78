package message

import (
	"strings"

	"github.com/carillonhq/carillon"
)

// Amount is how much of what quotas bound: jobs, and bytes of their data.
type Amount struct{ Jobs, Bytes int64 }

// Plus returns the sum of a and o.
func (a Amount) Plus(o Amount) Amount { return Amount{a.Jobs + o.Jobs, a.Bytes + o.Bytes} }

// Minus returns a without o; no field of it is less than 0.
func (a Amount) Minus(o Amount) Amount { return Amount{max(0, a.Jobs-o.Jobs), max(0, a.Bytes-o.Bytes)} }

// Fits reports whether a is not more than room, in what it has any of.
func (a Amount) Fits(room Amount) bool {
	return (a.Jobs <= 0 || a.Jobs <= room.Jobs) && (a.Bytes <= 0 || a.Bytes <= room.Bytes)
}

// Usage is what a partition has of a namespace, under its owner's term.
type Usage struct {
	Counted bool   // Used is known
	Used    Amount // by the jobs that are there
	Room    Amount // that may still be used, with what is set aside for batches
	Stamp   Stamp  // of the newest message of the home that the partition has taken
}

// AskRoom asks the home of a namespace's quotas, which is the partition that keeps its settings, for room for
// jobs in a partition.
type AskRoom struct {
	Namespace string
	Partition int // that wants it
	Has       Usage
	Want      Amount // without it, nothing
	More      Amount // for others that wait, as much as there is
}

// Room is an answer to AskRoom: so much more may be put into the partition. One that is not newer than what
// the partition knows is not valid any more.
type Room struct {
	Stamp Stamp
	Room  Amount
}

// CountUsage has a partition say what it has of a namespace, and give up the room that it has not used. The
// first one after a takeover counts the jobs, or goes on with that.
type CountUsage struct {
	Namespace string
	Stamp     Stamp // zero: it keeps its room
}

// TakeChanges asks the home of a namespace's quotas whether N changes may be made now, and up to More besides
// for those that come next.
type TakeChanges struct {
	Namespace string
	N, More   int64
}

// Changes is an answer to TakeChanges.
type Changes struct {
	N     int64 // how many may be made; 0: none now
	After int64 // then, after how long they may; ns
}

// RoomError says that a put needs more room of its namespace's quotas than its partition has. Nothing was
// done.
type RoomError struct {
	Partition int
	Namespace string
	Want      Amount
}

// Error implements [error].
func (e *RoomError) Error() string {
	return "the partition has no room of the quotas of namespace " + e.Namespace
}

// OverQuota reports whether a change was refused because its namespace is at one of its quotas: the same
// change may succeed later.
func OverQuota(e *carillon.Error) bool {
	return e.Kind == carillon.ResourceExhausted && strings.HasPrefix(e.Field, "quotas.")
}

// Payload returns the bytes of data of a job as quotas count them.
func Payload(j *carillon.Job) int64 {
	if j.Data.Ref != nil {
		return j.Data.Ref.Size
	}
	return int64(len(j.Data.Bytes))
}

func (AskRoom) message()     {}
func (CountUsage) message()  {}
func (TakeChanges) message() {}

func (AskRoom) replies(Room)        {}
func (CountUsage) replies(Usage)    {}
func (TakeChanges) replies(Changes) {}
