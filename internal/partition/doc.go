// Package partition is the state machine of one partition: what is due, who may have it, what happens when it fails.
//
// It is pure: no goroutine, no clock, no context, no I/O. The engine tells it what happened and what time it is; the
// machine answers with a batch to persist, deliveries to make and the instant at which it wants to be asked again.
// Everything it holds beyond the store's records can be thrown away and loaded again.
//
//	Put Patch Delete …   ops.go          what callers ask for; each tells after which batch to answer
//	                     anew.go         a put as if the job had been deleted first
//	                     retime.go       when a job runs next after an edit
//	                     counters.go     what a job counts, and when it is written
//	Tick                 tick.go         what time brings: due runs, expired leases, timeouts, ends of life
//	Deliver, Granted     deliver.go      the next runs of a queue, as attempts with tokens
//	                     pendingdelivery.go attempts that are durable before they are handed out
//	                     limit.go        how many attempts of a concurrency key may be in force
//	TokenCounter         limit_count.go  who has tokens of a limit and who is next, on one node
//	TokenHome, TokenPool limit_home.go   the same in a cluster: what the partition hands out,
//	                     limit_pool.go   and what it was handed
//	Result, Heartbeat         result.go       what consumers say; stale tokens change nothing
//	                     late.go         ends of attempts that a process saw late, because it stood still
//	                     progress.go     attempts that are not done: how far they are, when to go on
//	                     retry.go        what happens on failure
//	                     misfire.go      the node was down at fire time
//	                     overlap.go      the last run is still going
//	                     repeats.go      which runs count towards repeats
//	                     dapr.go         what is different for jobs of Dapr
//	SetPaused            pause.go        jobs that fire nothing, and how they go on
//	PutAll, ApplyShare   batches.go      jobs that are stored together, also across partitions
//	Register, Notices    dependencies.go who waits for the jobs of this partition, and what to tell them
//	Release              after.go        jobs that wait for the success of others
//	StartBackfill …      backfill.go     a job's past times, as runs beside its schedule
//	                     backfill_run.go when those runs are made, and what becomes of them
//	WantDue, Loaded      window.go       which slice of the store is in memory
//	                     timers.go       what entries wait for by themselves
//	                     backlog.go      which priority of a backlog is read first
//	WantStaged, Stage    staging.go      what waits in the store for a consumer
//	Batch, Committed     persist.go      what to write, and what may be said once it is written
package partition
