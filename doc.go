// Package carillon defines the types of Carillon, a distributed job scheduler: a [Job], a [Run], a
// [FailurePolicy], the [Error] that calls return, and the interfaces that everything else implements or uses.
//
// It does no I/O and reads no clock. [Scheduler] is the interface of all callers. Package client implements
// it over gRPC. A node builds one from its engine, or from the router if it is in a cluster, and from its
// hub, which takes the workers. The gRPC and REST APIs use any Scheduler.
//
// A job says what to do and when. Each time it is due is a run, each delivery of a run is an attempt:
//
//	job  reports/nightly   "0 0 2 * * *", http https://reports.example.com/run
//	 └─ run      2026-11-21T02:00:00Z, id 0c1g…      (its id is the idempotency key, equal on every attempt)
//	     ├─ attempt 1   failed: 503
//	     └─ attempt 2   succeeded
package carillon
