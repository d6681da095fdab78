// Package worker is the SDK for programs that execute runs: it calls Go functions for the runs of worker
// queues.
//
//	w := worker.New(c, worker.Options{Concurrency: 100})
//	worker.Handle(w, "reminders", func(ctx context.Context, run carillon.Run, in Reminder) error {
//		return send(ctx, in, run.ID) // the run's id is equal on every attempt: an idempotency key
//	})
//	err := w.Run(ctx) // until ctx is done; then it lets the handlers finish
//
// c is a client of package client, or a scheduler of package embedded in the same process.
//
// # What a handler's return means
//
//	nil                           the run has succeeded
//	[Discard] of an error         failed, and must not be retried
//	[RetryAfter] of an error      failed, and not to be retried before then
//	[Reschedule] at a time        neither: the same run is attempted again then, with fresh retries
//	any other error, or a panic   failed; the job's failure policy decides what comes next
//
// A handler that is added with [HandleResult] returns the result of the run besides, which is kept with it.
//
// A payload that is stored apart from its job is read when the handler is called. If it cannot be read at
// present, the run is attempted again a little later, and its failure policy does not count that; one that is
// missing or damaged fails the attempt.
//
// A payload that cannot be decoded fails permanently: a retry would fail the same way.
//
// A handler that takes long may report how far it is, with [Progress].
//
// # When a handler starts
//
// At once, if the attempt's lease is in force. After a pause of the process, or when the connection was held
// up, the worker cannot know that. Then it asks the server first, and does not start runs that were given to
// another worker meanwhile.
//
// # When a handler's context ends
//
// [context.Cause] is the reason: the attempt's timeout is over ([context.DeadlineExceeded]); the run was
// cancelled, or its job deleted or changed ([ErrCancelled]); the lease was lost and another worker may have
// the run ([ErrStale]); the worker is leaving and its grace period is over ([ErrLeaving]). What a handler
// returns after it was cancelled or stale is not reported.
//
// # Connections
//
// A lost connection stops nothing: handlers go on, the worker connects again, to any node, and reports with
// the tokens that it has. Results are kept and sent again until the server has confirmed that they are
// durable. While a run goes on the worker sends a heartbeat every quarter of its lease, at most 10 s apart.
//
// # Leaving
//
// When the context of Run is done the worker accepts no new runs and lets those that it has go on for
// [Options.Grace]. Then it ends their contexts, waits for [Options.ReturnTime], and gives back what is left
// over, so that other workers get it at once.
//
//	worker.go    options, handlers, Run
//	payload.go   a payload becomes a handler's input, and what it returns bytes
//	stored.go    payloads that are stored apart from their jobs
//	result.go    what a handler returns becomes a result
//	progress.go  what a handler reports while it goes on
//	lease.go     which runs may start without a question
//	inflight.go  the runs that the worker has, and the room it has left
//	outgoing.go  what is to be sent: results, heartbeats, credits
//	link.go      one session: its reader and its writer
//	connect.go   which session is the current one; connecting, handing over, leaving
package worker
