// Package carillon holds the words of Carillon, a distributed job scheduler: what a [Job] is, what a [Run] is, which
// [FailurePolicy] applies, which [Error] a caller can meet, and the interfaces that everything else implements or uses.
//
// It does no I/O and reads no clock. Four packages implement [Scheduler] (the engine here, the client there, the router
// for whoever owns the job, the guard for whoever may call it); every face takes one and cannot tell which.
//
// A job says what to do and when. Each time it is due is a run, each delivery of a run is an attempt:
//
//	job  reports/nightly   "0 0 2 * * *", http https://reports.example.com/run
//	 └─ run      2026-11-21T02:00:00Z, id 0c1g…      (its id is the idempotency key, equal on every attempt)
//	     ├─ attempt 1   failed: 503
//	     └─ attempt 2   succeeded
package carillon
