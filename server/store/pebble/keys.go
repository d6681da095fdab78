package pebble

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A key is partition (2 bytes, big endian), kind (1 byte), and the fields of the kind. Keys of one kind sort
// like what they encode; no key is a prefix of another of its kind. The layout is fixed by store.Format
// (docs/decisions/0004).
//
//	kindHead        ref of a job                               → head: place of the body, index entries
//	kindPending     ref of a pending run                       → the same
//	kindDue         priority, due, ref                         → body
//	kindStaged      queue, priority, run due, ref              → body; empty if the due index has it
//	kindSpec        ref                                        → a spec too large for the body
//	kindLive        uid, scheduled, cause, seq                 → ref
//	kindHistory     key hash, scheduled descending, rest of it → run record
//	kindAge         end of retention, uid, scheduled, …        → 1 if dead, else 0
//	kindDead        namespace, finished descending, uid, …     → nothing
//	kindMetaRecord  kind, key                                  → value
const (
	kindHead       = 'a'
	kindPending    = 'b'
	kindDue        = 'd'
	kindStaged     = 'q'
	kindSpec       = 's'
	kindLive       = 'l'
	kindHistory    = 'h'
	kindAge        = 't'
	kindDead       = 'x'
	kindMetaRecord = 'm'
)

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
var errKey = fmt.Errorf("malformed entry: %w", store.ErrDamaged)

// appendHead appends partition and kind.
func appendHead(b []byte, partition int, kind byte) []byte {
	return append(b, byte(partition>>8), byte(partition), kind)
}

// prefixEnd returns the first key after all that begin with b, in place; b must hold a byte below 0xff.
func prefixEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

// appendText appends s so that order is kept and no text is a prefix of another: bytes 0 and 1 become 1,1 and
// 1,2, and a 0 ends it.
func appendText(b []byte, s string) []byte {
	start := 0
	for i := range len(s) {
		if s[i] <= 1 {
			b = append(append(b, s[start:i]...), 1, s[i]+1)
			start = i + 1
		}
	}
	return append(append(b, s[start:]...), 0)
}

// cutText decodes what appendText wrote and returns the rest.
func cutText(b []byte) (s string, rest []byte, err error) {
	plain := true
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case 0:
			if plain {
				return string(b[:i]), b[i+1:], nil
			}
			return unescape(b[:i]), b[i+1:], nil
		case 1:
			if plain, i = false, i+1; i >= len(b) || b[i] < 1 || b[i] > 2 {
				return "", nil, errKey
			}
		}
	}
	return "", nil, errKey
}

func unescape(b []byte) string {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == 1 {
			i++
			out = append(out, b[i]-1)
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

// appendTime appends a time so that keys sort by it, including times before 1970.
func appendTime(b []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(t)^1<<63)
}

// appendTimeDesc is appendTime with the newest first.
func appendTimeDesc(b []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(b, ^(uint64(t) ^ 1<<63))
}

// cutTime decodes what appendTime wrote and returns the rest.
func cutTime(b []byte) (t int64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, errKey
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), b[8:], nil
}

// appendSeq appends n so that keys sort by it: a length, then that many bytes. 0 takes one byte.
func appendSeq(b []byte, n uint64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], n)
	skip := 0
	for skip < 8 && raw[skip] == 0 {
		skip++
	}
	return append(append(b, byte(8-skip)), raw[skip:]...)
}

// cutSeq decodes what appendSeq wrote and returns the rest.
func cutSeq(b []byte) (n uint64, rest []byte, err error) {
	if len(b) == 0 || b[0] > 8 || len(b) < 1+int(b[0]) {
		return 0, nil, errKey
	}
	end := 1 + int(b[0])
	for _, c := range b[1:end] {
		n = n<<8 | uint64(c)
	}
	return n, b[end:], nil
}

// appendRef appends a ref so that keys sort like Ref.Compare.
func appendRef(b []byte, r store.Ref) []byte {
	return appendSeq(appendText(appendText(b, r.Namespace), r.Name), r.Seq)
}

// parseRef decodes what appendRef wrote; nothing may follow.
func parseRef(b []byte) (r store.Ref, err error) {
	if r.Namespace, b, err = cutText(b); err != nil {
		return r, err
	}
	if r.Name, b, err = cutText(b); err != nil {
		return r, err
	}
	if r.Seq, b, err = cutSeq(b); err != nil {
		return r, err
	}
	if len(b) != 0 {
		return r, errKey
	}
	return r, nil
}

// appendHeadKey appends the key of a record's head. Pending runs have a kind of their own, so that deleting a
// job finds them, nearly always none, without a look at the jobs.
func appendHeadKey(b []byte, partition int, r store.Ref) []byte {
	if r.Seq == 0 {
		return appendRef(appendHead(b, partition, kindHead), r)
	}
	return appendRef(appendHead(b, partition, kindPending), r)
}

// appendPendingPrefix appends the common prefix of the head keys of a job's pending runs.
func appendPendingPrefix(b []byte, partition int, k carillon.Key) []byte {
	return appendText(appendText(appendHead(b, partition, kindPending), k.Namespace), k.Name)
}

// appendSpecKey appends the key of a spec too large for the body.
func appendSpecKey(b []byte, partition int, r store.Ref) []byte {
	return appendRef(appendHead(b, partition, kindSpec), r)
}

// appendDueKey appends a due index key.
func appendDueKey(b []byte, partition int, priority uint8, due int64, r store.Ref) []byte {
	return appendRef(appendTime(append(appendHead(b, partition, kindDue), priority), due), r)
}

// appendStagedKey appends a staged index key.
func appendStagedKey(b []byte, partition int, queue string, priority uint8, due int64, r store.Ref) []byte {
	b = append(appendText(appendHead(b, partition, kindStaged), queue), priority)
	return appendRef(appendTime(b, due), r)
}

// appendRun appends a run's identity without its partition: uid, scheduled, cause, seq.
func appendRun(b []byte, id *store.RunID) []byte {
	b = append(b, id.UID[:]...)
	b = append(appendTime(b, id.Scheduled), byte(id.Cause))
	return appendSeq(b, id.Seq)
}

// parseRun decodes what appendRun wrote; nothing may follow.
func parseRun(b []byte, partition int) (id store.RunID, err error) {
	id.Partition = uint16(partition)
	if len(b) < len(id.UID) {
		return id, errKey
	}
	copy(id.UID[:], b)
	if id.Scheduled, b, err = cutTime(b[len(id.UID):]); err != nil || len(b) == 0 {
		return id, errKey
	}
	id.Cause = carillon.Cause(b[0])
	if id.Seq, b, err = cutSeq(b[1:]); err != nil || len(b) != 0 {
		return id, errKey
	}
	return id, nil
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
	b = append(appendTimeDesc(b, id.Scheduled), id.UID[8:]...)
	return appendSeq(append(b, byte(id.Cause)), id.Seq)
}

// appendHistoryPrefix appends the common prefix of the history keys of a job's runs, and of jobs with the
// same hash.
func appendHistoryPrefix(b []byte, partition int, k carillon.Key) []byte {
	return binary.BigEndian.AppendUint64(appendHead(b, partition, kindHistory), store.KeyHash(k))
}

// appendAgeKey appends the retention index key of a finished run.
func appendAgeKey(b []byte, partition int, expires int64, id *store.RunID) []byte {
	return appendRun(appendTime(appendHead(b, partition, kindAge), expires), id)
}

// appendDeadKey appends the key that lists a dead run of a namespace, newest finished first.
func appendDeadKey(b []byte, partition int, namespace string, finished int64, id *store.RunID) []byte {
	b = appendText(appendHead(b, partition, kindDead), namespace)
	return appendRun(appendTimeDesc(b, finished), id)
}

// appendMetaKey appends the key of a metadata record.
func appendMetaKey(b []byte, partition int, kind byte, key string) []byte {
	return append(append(appendHead(b, partition, kindMetaRecord), kind), key...)
}
