package pebble

import (
	"encoding/binary"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// A key is partition (2 bytes, big endian), kind (1 byte), and the fields of the kind. Keys of one kind sort
// like what they encode; no key is a prefix of another of its kind. The layout is fixed by store.Format
// (docs/decisions/0004).
//
//	kindHead        ref of a job                               → head: place of the body, index entries
//	kindPending     ref of a pending run                       → the same
//	kindDue         priority, due, ref                         → body
//	kindStaged      queue, priority, run due, ref              → body; empty if the due index has it
//	kindPhase       phase, 1 of a pending run, else 0, ref     → nothing; none of those that are scheduled
//	kindSpec        ref                                        → a spec too large for the body
//	kindLive        uid, scheduled, cause, seq                 → ref
//	kindHistory     key hash, scheduled descending, rest of it → run record
//	kindAge         end of retention, uid, scheduled, …        → 1 if dead, else 0
//	kindFinished    status, namespace, finished descending, …  → nothing
//	kindMetaRecord  kind, key                                  → value
const (
	kindHead       = 'a'
	kindPending    = 'b'
	kindDue        = 'd'
	kindStaged     = 'q'
	kindPhase      = 'p'
	kindSpec       = 's'
	kindLive       = 'l'
	kindHistory    = 'h'
	kindAge        = 't'
	kindFinished   = 'f'
	kindMetaRecord = 'm'
)

// kindDead listed the dead runs of a namespace, newest finished first, before format 3.
const kindDead = 'x'

// Kinds of the store's own partition, storePartition.
const (
	kindMeta  = 'A'
	kindOwner = 'O'
	kindUntil = 'U'
)

// storePartition holds what belongs to no partition. A store has at most [store.MaxPartitions], so the
// numbers never collide.
const storePartition = math.MaxUint16

// headLen is the length of partition and kind, the beginning of every key.
const headLen = 3

// errKey reports a key or value that this package cannot have written: the store is damaged.
var errKey = ordered.ErrMalformed

// appendHead appends partition and kind.
func appendHead(b []byte, partition int, kind byte) []byte {
	return append(b, byte(partition>>8), byte(partition), kind)
}

// appendHeadKey appends the key of a record's head. Pending runs have a kind of their own, so that deleting a
// job finds them, nearly always none, without a look at the jobs.
func appendHeadKey(b []byte, partition int, r store.Ref) []byte {
	if r.Seq == 0 {
		return ordered.AppendRef(appendHead(b, partition, kindHead), r)
	}
	return ordered.AppendRef(appendHead(b, partition, kindPending), r)
}

// appendPendingPrefix appends the common prefix of the head keys of a job's pending runs.
func appendPendingPrefix(b []byte, partition int, k carillon.Key) []byte {
	return ordered.AppendText(ordered.AppendText(appendHead(b, partition, kindPending), k.Namespace), k.Name)
}

// appendSpecKey appends the key of a spec too large for the body.
func appendSpecKey(b []byte, partition int, r store.Ref) []byte {
	return ordered.AppendRef(appendHead(b, partition, kindSpec), r)
}

// appendDueKey appends a due index key.
func appendDueKey(b []byte, partition int, priority uint8, due int64, r store.Ref) []byte {
	return ordered.AppendRef(ordered.AppendTime(append(appendHead(b, partition, kindDue), priority), due), r)
}

// appendStagedKey appends a staged index key.
func appendStagedKey(b []byte, partition int, queue string, priority uint8, due int64, r store.Ref) []byte {
	b = append(ordered.AppendText(appendHead(b, partition, kindStaged), queue), priority)
	return ordered.AppendRef(ordered.AppendTime(b, due), r)
}

// appendPhasePrefix appends the common prefix of the keys of the jobs, or of the pending runs, in a phase.
func appendPhasePrefix(b []byte, partition int, phase carillon.Phase, pending bool) []byte {
	b = append(appendHead(b, partition, kindPhase), byte(phase), 0)
	if pending {
		b[len(b)-1] = 1
	}
	return b
}

// appendPhaseKey appends the key that lists a record in its phase.
func appendPhaseKey(b []byte, partition int, phase carillon.Phase, r store.Ref) []byte {
	return ordered.AppendRef(appendPhasePrefix(b, partition, phase, r.Seq > 0), r)
}

// appendRun appends a run's identity without its partition: uid, scheduled, cause, seq.
func appendRun(b []byte, id *store.RunID) []byte {
	b = append(b, id.UID[:]...)
	b = append(ordered.AppendTime(b, id.Scheduled), byte(id.Cause))
	return ordered.AppendSeq(b, id.Seq)
}

// cutRun cuts off what appendRun wrote.
func cutRun(c *ordered.Cutter, partition int) (id store.RunID) {
	id.Partition = uint16(partition)
	copy(id.UID[:], c.Bytes(uint64(len(id.UID))))
	id.Scheduled, id.Cause, id.Seq = c.Time(), carillon.Cause(c.Byte()), c.Seq()
	return id
}

// appendLiveKey appends the key of an unfinished run.
func appendLiveKey(b []byte, partition int, id *store.RunID) []byte {
	return appendRun(appendHead(b, partition, kindLive), id)
}

// appendHistoryKey appends the key of a finished run: of all runs of a job, the newest scheduled comes first.
// The first half of a uid is the hash of the job's key, so a run id leads to its record, and a job's name to
// all of its runs.
func appendHistoryKey(b []byte, partition int, id *store.RunID) []byte {
	b = append(appendHead(b, partition, kindHistory), id.UID[:8]...)
	b = append(ordered.AppendTimeDesc(b, id.Scheduled), id.UID[8:]...)
	return ordered.AppendSeq(append(b, byte(id.Cause)), id.Seq)
}

// appendHistoryPrefix appends the common prefix of the history keys of a job's runs, and of jobs with the
// same hash.
func appendHistoryPrefix(b []byte, partition int, k carillon.Key) []byte {
	return binary.BigEndian.AppendUint64(appendHead(b, partition, kindHistory), store.KeyHash(k))
}

// appendAgeKey appends the retention index key of a finished run.
func appendAgeKey(b []byte, partition int, expires int64, id *store.RunID) []byte {
	return appendRun(ordered.AppendTime(appendHead(b, partition, kindAge), expires), id)
}

// appendFinishedPrefix appends the common prefix of the keys of a namespace's runs that ended with a status.
func appendFinishedPrefix(b []byte, partition int, status carillon.RunStatus, namespace string) []byte {
	return ordered.AppendText(append(appendHead(b, partition, kindFinished), byte(status)), namespace)
}

// appendFinishedKey appends the key that lists a finished run of a namespace, newest finished first.
func appendFinishedKey(b []byte, partition int, r *store.RunRecord) []byte {
	b = appendFinishedPrefix(b, partition, r.Status, r.Key.Namespace)
	return appendRun(ordered.AppendTimeDesc(b, r.Finished), &r.ID)
}

// appendMetaKey appends the key of a metadata record.
func appendMetaKey(b []byte, partition int, kind byte, key string) []byte {
	return append(append(appendHead(b, partition, kindMetaRecord), kind), key...)
}
