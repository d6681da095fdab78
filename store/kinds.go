package store

// Kinds of metadata records. Every kind of every package is here, so that no two share a letter; what keys and values hold is said where a
// kind is written. A kind is part of the format: it is never given to something else.
const (
	KindApplied    = 'a' // internal/partition: a batch put whose jobs of this partition are stored, while its intent may be there
	KindBackfill   = 'b' // internal/partition: a backfill
	KindTerms      = 'd' // internal/partition: the terms that may have left attempts in doubt
	KindDependency = 'e' // internal/partition: a job that waits for one of this partition
	KindAllocation = 'g' // internal/partition: permits that a home has handed out to a partition
	KindIntent     = 'i' // internal/partition: a job of a batch put that is decided
	KindLimited    = 'l' // internal/partition: an attempt in force that holds a permit
	KindNamespace  = 'n' // internal/engine: the settings of a namespace
	KindNotice     = 'o' // internal/partition: a success that is to be told to a job that waits for it
	KindProbe      = 'p' // internal/engine, internal/cluster: written and deleted to see whether the store takes writes
	KindParked     = 'q' // internal/partition: a queue with parked runs
)
