package store

import "context"

// Examiner is a [Store] that can look at how it keeps a partition, entry by entry: queries show neither an
// index entry that leads nowhere nor a record that an index lacks. It is optional, for engines that write
// their indexes; those that make them in memory have no such entries.
type Examiner interface {
	// Examine looks at everything that is kept of a partition and calls found for each fault. With the zero
	// term it changes nothing. With a term that is in force it also mends what can be mended without a guess,
	// durably, before it calls found: it writes entries that follow from a record, and removes entries that
	// no record has. It removes no job and no run. It may be cut off anywhere: the next call goes on. Nobody
	// else may write to the partition meanwhile. An error of found ends it.
	Examine(ctx context.Context, partition int, term Term, found func(Fault) error) error
}

// Fault is something that is wrong with how a store keeps a partition.
type Fault struct {
	Kind   FaultKind
	Ref    Ref    // the record, or the job of a finished run; zero: not known
	Run    RunID  // of a finished or unfinished run; zero: none
	What   string // what is wrong, for people
	Mended bool
}

// FaultKind is a stable word for what is wrong. docs/operations.md lists them.
type FaultKind string

// Faults of what is kept under a name.
const (
	FaultRecordUnreadable FaultKind = "record-unreadable" // a job or a pending run cannot be decoded
	FaultRunUnreadable    FaultKind = "run-unreadable"    // a finished run cannot be decoded
	FaultNameMissing      FaultKind = "name-missing"      // contents of a record, without its entry by name
	FaultKeyUnknown       FaultKind = "key-unknown"       // a key that this program does not write
)

// Faults of index entries: missing where a record has none, dangling where an entry has no record, or is not
// what its record says.
const (
	FaultListMissing     FaultKind = "list-missing"
	FaultListDangling    FaultKind = "list-dangling"
	FaultDueMissing      FaultKind = "due-missing"
	FaultDueDangling     FaultKind = "due-dangling"
	FaultStagedMissing   FaultKind = "staged-missing"
	FaultStagedDangling  FaultKind = "staged-dangling"
	FaultPhaseMissing    FaultKind = "phase-missing"
	FaultPhaseDangling   FaultKind = "phase-dangling"
	FaultLiveMissing     FaultKind = "live-missing"
	FaultLiveDangling    FaultKind = "live-dangling"
	FaultSpecDangling    FaultKind = "spec-dangling"
	FaultHistoryMissing  FaultKind = "history-missing"
	FaultHistoryDangling FaultKind = "history-dangling"
	FaultAgeMissing      FaultKind = "age-missing"
	FaultAgeDangling     FaultKind = "age-dangling"
	FaultStatusMissing   FaultKind = "status-missing"
	FaultStatusDangling  FaultKind = "status-dangling"
	FaultMetaMissing     FaultKind = "meta-missing"
	FaultMetaDangling    FaultKind = "meta-dangling"
)
