// Package partition is the state machine of one partition: what is due, who may have it, what happens when it fails.
//
// It is pure: no goroutine, no clock, no context, no I/O. The engine tells it what happened and what time it is; the
// machine answers with a batch to persist, deliveries to make and the instant at which it wants to be asked again.
// Everything it holds beyond the store's records can be thrown away and loaded again.
//
//	Put Patch Delete Trigger …   ops.go        what callers ask for; each tells after which batch to answer
//	Tick                         tick.go       what time brings: due runs, expired leases, timeouts, ends of life
//	Deliver                      deliver.go    the next runs of a queue, as attempts with tokens
//	Result, Beat                 result.go     what consumers say; stale tokens change nothing
//	                             retry.go      what happens on failure
//	                             misfire.go    the node was down at fire time
//	                             overlap.go    the last run is still going
//	StartBackfill …              backfill.go      a job's past times, as runs beside its schedule
//	                             backfill_run.go  when those runs are made, and what becomes of them
//	WantDue, Loaded              window.go     which slice of the store is in memory
//	WantStaged, Stage            staging.go    what waits in the store for a consumer
//	Batch, Committed             persist.go    what to write, and what may be said once it is written
package partition
