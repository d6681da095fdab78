package redis

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
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
	keyFinished
	keyAge
	keyDeadAge
	keyMetaRecords
	keyMetaRecordKeys
	keyPhases
)

// deadKey is what the key of a list of dead runs ended in before format 3.
const deadKey = "dead"

// keyNames are what the keys of a partition end in: docs/stores.md tells operators.
var keyNames = [...]string{
	keyOwner: "owner", keyState: "state", keySpec: "spec", keyJobs: "jobs", keyPending: "pending", keyDue: "due",
	keyStaged: "staged", keyLive: "live", keyRuns: "runs", keyHistory: "history", keyFinished: "finished",
	keyAge: "age", keyDeadAge: "deadage", keyMetaRecords: "small", keyMetaRecordKeys: "smallkeys",
	keyPhases: "phases",
}

// partitionKeys are the keys of a partition. The braces put all of them into one hash slot.
func partitionKeys(prefix string, partition int) []string {
	out := make([]string, len(keyNames))
	for i, name := range keyNames {
		out[i] = partitionKey(prefix, partition, name)
	}
	return out
}

func partitionKey(prefix string, partition int, name string) string {
	return fmt.Sprintf("{%s:%d}:%s", prefix, partition, name)
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
//	finished   status, namespace, finished descending, run
//	age        end of retention, run (of those that are not dead)
//	deadage    the same of the dead
//	smallkeys  kind, key
//	phases     phase, 1 of a pending run, else 0, ref; none of those that are scheduled
//
// The hashes: state, spec (ref → bytes), live (run → ref), runs (run → bytes), small (kind, key → value).

// appendJob appends what all refs of a job begin with, and its runs in the history.
func appendJob(b []byte, k carillon.Key) []byte {
	return ordered.AppendText(ordered.AppendText(b, k.Namespace), k.Name)
}

// appendRun appends a run's identity without its partition; of one job's runs the newest scheduled comes
// first.
func appendRun(b []byte, id *store.RunID) []byte {
	b = append(ordered.AppendTimeDesc(b, id.Scheduled), id.UID[:]...)
	return ordered.AppendSeq(append(b, byte(id.Cause)), id.Seq)
}

// after is what is greater than all texts that begin with prefix, as the end of a range.
func after(prefix []byte) string {
	if end := ordered.After(prefix); end != nil {
		return "(" + string(end)
	}
	return "+"
}
