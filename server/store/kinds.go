package store

// Kinds of metadata records. The kinds of all packages are listed here, so that no two share a letter; where
// a kind is written, a comment describes its keys and values. A kind is part of the format: its letter is
// never used for something else.
const (
	KindApplied    = 'a' // server/internal/partition: a batch put stored here, whose intent may still exist
	KindBackfill   = 'b' // server/internal/partition: a backfill
	KindCalendar   = 'c' // server/internal/engine: a calendar of a namespace
	KindCommand    = 'r' // server/internal/partition: a command that is done and may come again
	KindTerms      = 'd' // server/internal/partition: the terms that may have left attempts in doubt
	KindDependency = 'e' // server/internal/partition: a job that depends on one of this partition
	KindAllocation = 'g' // server/internal/permit: what a home has handed out, and levels of rates
	KindWebhooks   = 'h' // server/internal/engine: how far webhooks have been told, a position as text
	KindIntent     = 'i' // server/internal/partition: a job of a batch put that is decided
	KindAudit      = 'j' // server/internal/partition: an entry of a chain of audit entries
	KindKey        = 'k' // server/internal/partition: an API key, by its id
	KindLimited    = 'l' // server/internal/partition: an attempt in force that holds a permit
	KindMove       = 'm' // the store is not whole yet, or has moved elsewhere, see [CheckMove]
	KindNamespace  = 'n' // server/internal/engine: the settings of a namespace
	KindNotice     = 'o' // server/internal/partition: a success that a dependent job is to be notified of
	// server/internal/engine, server/internal/cluster: written and deleted to test the store.
	KindProbe      = 'p'
	KindParked     = 'q' // server/internal/partition: a queue with parked runs
	KindSeal       = 's' // server/store/sealed: records of the partition are encrypted with the key of this id
	KindTold       = 't' // server/internal/partition: what was told of a node or a queue
	KindQueue      = 'u' // server/internal/partition: a paused queue
	KindEvents     = 'v' // server/internal/partition: events that watchers have still to see
	KindWatched    = 'w' // server/internal/partition: how long events are recorded, and which are kept
	KindAuditChain = 'x' // server/internal/partition: which entries of a chain are kept
)
