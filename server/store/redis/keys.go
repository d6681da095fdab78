package redis

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// The order of the keys of a partition, which is that of KEYS in apply.lua.
const (
	keyOwner = iota
	keyState
	keySpec
	keyJobs
	keyPending
	keyDue
	keyStaged
	keyLive
	keyRuns
	keyHistory
	keyDead
	keyAge
	keyDeadAge
	keyMetaRecords
	keyMetaRecordKeys
)

// keyNames are what the keys of a partition end in: docs/stores.md tells operators.
var keyNames = [...]string{
	keyOwner: "owner", keyState: "state", keySpec: "spec", keyJobs: "jobs", keyPending: "pending", keyDue: "due",
	keyStaged: "staged", keyLive: "live", keyRuns: "runs", keyHistory: "history", keyDead: "dead", keyAge: "age",
	keyDeadAge: "deadage", keyMetaRecords: "small", keyMetaRecordKeys: "smallkeys",
}

// partitionKeys are the keys of a partition. The braces put all of them into one hash slot.
func partitionKeys(prefix string, partition int) []string {
	out := make([]string, len(keyNames))
	for i, name := range keyNames {
		out[i] = fmt.Sprintf("{%s:%d}:%s", prefix, partition, name)
	}
	return out
}

// storeKey is a key that belongs to no partition.
func storeKey(prefix, name string) string { return fmt.Sprintf("{%s}:%s", prefix, name) }

// Members of the sorted sets all have the score 0, so that a set sorts by their bytes. They sort like what
// they encode, and none is a prefix of another.
//
//	jobs       ref
//	pending    ref
//	due        priority, due, ref
//	staged     queue, priority, run due, ref
//	history    namespace, name, run (newest scheduled first), 1 if dead, else 0
//	dead       namespace, finished descending, run
//	age        end of retention, run (of those that are not dead)
//	deadage    the same of the dead
//	smallkeys  kind, key
//
// The hashes: state, spec (ref → bytes), live (run → ref), runs (run → bytes), small (kind, key → value).

// appendText appends s so that order is kept and no text is a prefix of another: bytes 0 and 1 become 1,1 and
// 1,2, and a 0 ends it.
func appendText(b []byte, s string) []byte { return append(appendPrefix(b, s), 0) }

// appendPrefix is appendText without the end: what all texts that begin with s begin with.
func appendPrefix(b []byte, s string) []byte {
	start := 0
	for i := range len(s) {
		if s[i] <= 1 {
			b = append(append(b, s[start:i]...), 1, s[i]+1)
			start = i + 1
		}
	}
	return append(b, s[start:]...)
}

// cutText reads what appendText wrote and returns the rest; ok is false if there is no end.
func cutText(s string) (text, rest string, ok bool) {
	var out []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == 0 && out == nil:
			return s[:i], s[i+1:], true
		case s[i] == 0:
			return string(out), s[i+1:], true
		case s[i] == 1 && i+1 < len(s):
			if out == nil {
				out = append(make([]byte, 0, len(s)), s[:i]...)
			}
			i++
			out = append(out, s[i]-1)
		case out != nil:
			out = append(out, s[i])
		}
	}
	return "", "", false
}

// appendTime appends a time so that bytes sort by it, those before 1970 included.
func appendTime(b []byte, t int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(t)^1<<63) }

// appendTimeDesc is appendTime with the newest first.
func appendTimeDesc(b []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(b, ^(uint64(t) ^ 1<<63))
}

// appendSeq appends n so that bytes sort by it: a length, then that many bytes. 0 takes one byte.
func appendSeq(b []byte, n uint64) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], n)
	skip := 0
	for skip < len(raw) && raw[skip] == 0 {
		skip++
	}
	return append(append(b, byte(len(raw)-skip)), raw[skip:]...)
}

// appendJob appends what all refs of a job begin with, and its runs in the history.
func appendJob(b []byte, k carillon.Key) []byte {
	return appendText(appendText(b, k.Namespace), k.Name)
}

// appendRef appends a ref so that bytes sort like [store.Ref.Compare].
func appendRef(b []byte, r store.Ref) []byte { return appendSeq(appendJob(b, r.Key), r.Seq) }

// parseRef reads what appendRef wrote.
func parseRef(s string) (r store.Ref, err error) {
	var ok bool
	rest := s
	if r.Namespace, rest, ok = cutText(rest); ok {
		r.Name, rest, ok = cutText(rest)
	}
	if !ok || rest == "" || int(rest[0]) != len(rest)-1 || rest[0] > 8 {
		return store.Ref{}, fmt.Errorf("%w: ref %q", store.ErrDamaged, s)
	}
	for _, c := range []byte(rest[1:]) {
		r.Seq = r.Seq<<8 | uint64(c)
	}
	return r, nil
}

// appendRun appends a run's identity without its partition; of one job's runs the newest scheduled comes
// first.
func appendRun(b []byte, id *store.RunID) []byte {
	b = append(appendTimeDesc(b, id.Scheduled), id.UID[:]...)
	return appendSeq(append(b, byte(id.Cause)), id.Seq)
}

// after is what is greater than all texts that begin with b, as the end of a range; b is used up.
func after(b []byte) string {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != math.MaxUint8 {
			b[i]++
			return "(" + string(b[:i+1])
		}
	}
	return "+"
}
