// Package partition is the state machine of one partition: which runs are due, who may run them, and what
// happens when they fail.
//
// It is pure: no goroutines, no clock, no contexts, no I/O. The engine tells it what happened and what time
// it is. The machine answers with a batch to persist, deliveries to make, and the instant at which Tick must
// be called next. Everything it holds beyond the store's records can be dropped and loaded again.
//
// # The round of a partition
//
// The engine calls the machine in rounds, from one goroutine. A round feeds it everything that has come in
// since the last one, lets time pass, reads what is missing, and hands out due runs. The changes collect in
// one batch:
//
//	reports, calls ── Report, Heartbeat, Put … ─┐
//	the clock ─────── Tick ─────────────────────┤                     ┌─► deliveries, at once
//	the store ─────── Load, Loaded, LoadStaged ─┼─► entries, timers, ─┤
//	free slots ────── Deliver ──────────────────┘   queues            └─► Batch ─► store ─► Committed
//	                                                                                           │
//	    answers to callers and consumers, deliveries of Granted, blocked runs, freed permits ◄─┘
//
// The next rounds do not wait for the store: they fill the next batch while the last one is applied. Three
// rules keep that safe. First, an answer is sent only when the batch that [Machine.After] names is durable.
// Second, a due run with a change that is not durable yet is blocked until Committed (persist.go). Third, an
// attempt may be handed out before it is durable, because the store already says that its run is due: if the
// owner dies, its successor makes the same attempt again (indoubt.go). Attempts that hold a permit, and those
// of handlers in this process, are durable first (pendingdelivery.go).
//
// # Files
//
//	Open, Snapshot        snapshot.go         what a new owner must know before its machine begins
//	Begin, After          machine.go          configuration, fields, and the bounds of a round
//	                      entry.go            one record in memory
//	                      records.go          the records in memory, and what must be read for them
//	                      contents.go         specs in memory, and what is decoded of them
//	                      agenda.go           when each record does something by itself
//	                      runs.go             pending runs, and how runs are stopped
//	Jobs                  jobs.go             what callers ask for, in the files below
//	Put                   put.go              what a put does, from top to bottom
//	Patch                 patch.go            a put of some fields
//	Delete                delete.go           the end of a job with all its runs
//	                      supersede.go        unfinished runs go on with the new content of their job
//	                      family.go           a job with its unfinished runs in memory
//	                      timetable.go        when a job runs, from its spec and state alone
//	                      retime.go           when a job runs next after an edit
//	                      counters.go         what a job counts, and when that is written
//	Trigger, Skip, Cancel trigger.go          what callers ask for single runs, Redrive too
//	Absent                pending.go          pending runs that must be read before an operation
//	Job                   view.go             jobs and runs as callers see them
//	OfJob, OfRun          hold.go             why runs do not go on
//	Tick, Deliver, Report duerun.go           what a due run does, from its timer to its end
//	                      overdue.go          expired leases, timeouts, ends of life
//	                      due.go              due runs, until they are handed out or parked
//	Queues, AppendWaiting ready.go            due runs in memory, by queue and priority
//	CatchUp, Bound        catchup.go          what became due while the store was away waits apart
//	Handed                deliver.go          makes an attempt with its token, and hands it over at the end of a term
//	Attempts              attempts.go         attempts in force: their leases, their withdrawal, and when they are made durable
//	Granted               pendingdelivery.go  attempts that are durable before they are handed out
//	Permits, Promote      limit.go            runs that wait for permits of their limits
//	AppendAwaited         awaited.go          how many attempts in force a consumer at a broker completes
//	ForgoKept             keptpermits.go      how those that wait return permits that they have kept
//	Tallies               tally.go            how the limits stand that sidecars name
//	Verdict, Settled      result.go           answers to reports, heartbeats and losses; stale tokens change nothing
//	                      late.go             ends of attempts noticed late, after the process stood still
//	                      progress.go         progress reports and reschedules
//	                      retry.go            what happens on failure
//	History               history.go          finished runs: written, trimmed, swept
//	                      misfire.go          times that came while nobody could fire them
//	                      excluded.go         times that calendars exclude
//	                      overlap.go          times that come while the previous run is unfinished
//	                      repeats.go          which runs count towards repeats
//	                      target.go           what the kind of a target means for the machine
//	                      kept.go             attempts that stay with their streams at a hand-over
//	                      indoubt.go          attempts that an earlier owner may have handed out
//	                      duplicates.go       further consumers of an attempt that was handed out twice
//	SetPaused             pause.go            paused jobs, and how they resume
//	Purge                 purge.go            the end of due runs that wait in a queue
//	PausedQueues          pausedqueues.go     which queues of the store are paused
//	Keys                  keys.go             the API keys of the store
//	Audit                 auditlog.go         who has called what: entries, chained by hash
//	PutAll, ApplyShare    batches.go          jobs that are stored together, also across partitions
//	CommitIntents         intents.go          the records that decide a batch across partitions
//	Tracer                traces.go           trace contexts of attempts, and what their spans are made of
//	AppliedMarkers        applied.go          which shares of such batches are stored
//	Dependencies          dependencies.go     which jobs wait for jobs of this partition, and their notices
//	Release               waits.go            the waits of a job that depends on others
//	                      backfill.go         one backfill: past times of a job, run beside its schedule
//	PlanBackfill          backfill_plan.go    which times those are
//	Backfills             backfills.go        the backfills of the partition, and their records
//	BackfillRuns, Start   backfill_run.go     when their runs are made, and how they end
//	Window, WantDue       window.go           which slice of the store is in memory
//	                      timers.go           the heap of timers
//	                      backlog.go          which priority of a backlog is read first
//	WantStaged, Stage     staging.go          due runs that are parked in the store
//	Events                events.go           what happens, recorded for those who watch
//	                      tell.go             what is recorded, and with which change
//	Batch, Committed      persist.go          what to write, and what may go on once it is durable
package partition
