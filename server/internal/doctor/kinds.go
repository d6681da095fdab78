package doctor

import "github.com/carillonhq/carillon/server/store"

// Kind is a stable word for what is wrong. Those of package store are faults of how an engine keeps a
// partition; the others are found by reading what it holds.
type Kind = store.FaultKind

// What is found in any store.
const (
	RecordMisplaced    Kind = "record-misplaced"
	RecordInvalid      Kind = "record-invalid"
	SpecMissing        Kind = "spec-missing"
	SpecInvalid        Kind = "spec-invalid"
	EpochAhead         Kind = "epoch-ahead"
	DueLate            Kind = "due-late"
	CountersWrong      Kind = "counters-wrong"
	PendingWithoutJob  Kind = "pending-without-job"
	PendingCountWrong  Kind = "pending-count-wrong"
	BackfillCountWrong Kind = "backfill-count-wrong"
	BackfillWithoutJob Kind = "backfill-without-job"
	DependencyMissing  Kind = "dependency-missing"
	ParkedMissing      Kind = "parked-missing"
	PermitMissing      Kind = "permit-missing"
	PermitDangling     Kind = "permit-dangling"
	RunMisplaced       Kind = "run-misplaced"
	RunInvalid         Kind = "run-invalid"
	MetaUnreadable     Kind = "meta-unreadable"
	MetaUnknown        Kind = "meta-unknown"
	MetaMisplaced      Kind = "meta-misplaced"
	IntentsIncomplete  Kind = "intents-incomplete"
	AuditBroken        Kind = "audit-broken"
	Undecrypted        Kind = "undecrypted"
	StoreMarked        Kind = "store-marked"
)

// About describes a kind: what it means, what mending does, and what is lost by that. An empty Mending: it is
// left as it is.
type About struct {
	Kind
	Means, Mending, Lost string
}

const (
	nothing  = "nothing"
	writes   = "writes the entry from the record"
	removes  = "removes the entry"
	leftOver = "an entry that no record has, or an old one of a record"
)

// EngineKinds is how many of [Kinds], the first ones, are faults of how an engine keeps a partition.
const EngineKinds = 23

// Kinds lists all kinds, as docs/operations.md does.
func Kinds() []About {
	return []About{
		{store.FaultRecordUnreadable, "a job or a pending run cannot be decoded, or a part of it is gone", "", ""},
		{store.FaultNameMissing, "contents of a job or a pending run without its entry by name: " +
			"the job still fires, but cannot be read or deleted", "", ""},
		{store.FaultRunUnreadable, "a finished run cannot be decoded", "", ""},
		{store.FaultKeyUnknown, "a key that no version up to this one writes", "", ""},
		{store.FaultListMissing, "a job or a pending run is in no list", writes, nothing},
		{store.FaultListDangling, "a list names a job or a pending run that is not there", removes, nothing},
		{store.FaultDueMissing, "a job or a pending run is not in the due index: it never fires", writes, nothing},
		{store.FaultDueDangling, "the due index has " + leftOver, removes, nothing},
		{store.FaultStagedMissing, "a parked run is not in its queue: no consumer gets it", writes, nothing},
		{store.FaultStagedDangling, "a queue has " + leftOver, removes, nothing},
		{store.FaultPhaseMissing, "a record is not listed by its phase", writes, nothing},
		{store.FaultPhaseDangling, "the list by phase has " + leftOver, removes, nothing},
		{store.FaultLiveMissing, "an unfinished run is not found by its id: results of it are refused",
			writes + ", unless another record has a run of that id", nothing},
		{store.FaultLiveDangling, "the id of a run leads to a record that does not have it", removes, nothing},
		{store.FaultSpecDangling, "a spec that no record has", "removes it", "the spec"},
		{store.FaultHistoryMissing, "a finished run is not in the history of its job", writes, nothing},
		{store.FaultHistoryDangling, "the history of a job has " + leftOver, removes, nothing},
		{store.FaultAgeMissing, "a finished run is not in the age index: it would stay beyond its retention", writes, nothing},
		{store.FaultAgeDangling, "the age index has " + leftOver, removes, nothing},
		{store.FaultStatusMissing, "a finished run is not listed by its status", writes, nothing},
		{store.FaultStatusDangling, "the list by status has " + leftOver, removes, nothing},
		{store.FaultMetaMissing, "a metadata record is in no list: no node reads it", writes, nothing},
		{store.FaultMetaDangling, "a list names a metadata record that is not there", removes, nothing},
		{RecordMisplaced, "a job or a pending run is in another partition than its name says, or its uid is of another name: " +
			"no node finds it", "", ""},
		{RecordInvalid, "the state of a job or a pending run contradicts itself", "", ""},
		{SpecMissing, "a job, or a pending run with a spec of its own, has no spec", "", ""},
		{SpecInvalid, "the spec of a job cannot be decoded, or not be run: its schedule or its time zone is unknown here", "", ""},
		{EpochAhead, "a record or a run is of a term that the store has not reached: an older copy of the terms was restored", "", ""},
		{DueLate, "a job or a pending run is due after its next run, or never", "makes it due at its next run", nothing},
		{CountersWrong, "a job counts more ends of runs than runs that began", "counts as fired what has ended, or has had an attempt", nothing},
		{PendingWithoutJob, "a pending run without its job: it never runs", "", ""},
		{PendingCountWrong, "a job counts other pending runs than there are: it is not removed when it is done, or too early",
			"counts them", nothing},
		{BackfillCountWrong, "a job counts other unfinished backfills than there are", "counts them", nothing},
		{BackfillWithoutJob, "an unfinished backfill without its job", "removes it, as the next owner would", "how far the backfill had come"},
		{DependencyMissing, "the partition of a job does not know of one that waits for it", "registers it", nothing},
		{ParkedMissing, "runs are parked in a queue that the partition does not name: no consumer gets them", "names the queue", nothing},
		{PermitMissing, "an attempt in force holds permits that are not recorded: a limit may be exceeded until it ends", "", ""},
		{PermitDangling, "a permit is recorded for an attempt that is not in force", "removes it, as the next owner would", nothing},
		{RunMisplaced, "a finished run is in another partition than its job's name says, or its id is of another name", "", ""},
		{RunInvalid, "a finished run whose status is none of an end", "", ""},
		{MetaUnreadable, "a metadata record cannot be decoded", "", ""},
		{MetaUnknown, "a metadata record of a kind that this version does not know", "", ""},
		{MetaMisplaced, "a metadata record is in a partition where no node looks for it", "", ""},
		{IntentsIncomplete, "some of the jobs of a batch that was decided are missing: the batch is not stored", "", ""},
		{AuditBroken, "an audit entry was changed or removed, or the record of its chain was: carillon audit verify tells the same", "", ""},
		{Undecrypted, "with --encryption-keys: messages or the result of a run, settings of a namespace, a job of a batch, or events " +
			"cannot be decrypted: they were changed, or are of another job", "", ""},
		{StoreMarked, "no node serves the store: carillon migrate or restore has not come to its end, or what it held is elsewhere", "", ""},
	}
}
