// Package checker judges what a scheduler did, from what others saw of it: clients, workers, the nemesis, the
// store.
//
// [Check] is a pure function of a [History] and a [Spec]. The same function judges the simulation, real
// processes and soaks, so nothing here imports the product: times, words and small structs only. What a
// schedule, a zone, a failure policy or a misfire rule means is written down a second time, naively, and held
// against what happened.
//
// A harness writes into a [Recorder] while it runs, reads what is left at the end into [Final], and asks for
// a verdict:
//
//	rec := checker.NewRecorder("chaos", seed, build, checker.Constants{Dispatch: time.Second}, nil)
//	done := rec.Begin(checker.Op{Kind: checker.Put, Namespace: "default", Job: "a", Spec: &spec})
//	…
//	done(checker.OK, func(o *checker.Op) { o.Answer.Generation = 1 })
//	…
//	v := checker.Check(rec.History(), checker.Spec{})
//	if v.Result == checker.Failed { … }
//
// A harness has to keep to a few rules, or the verdict is about the harness:
//
//   - End is a moment at which workers were still there: what is due shortly before it is not asked
//     for, what is due earlier is.
//   - Healed comes Constants.Recovery and some time before End, or nothing is shown about liveness.
//   - An HTTP endpoint that takes runs writes attempts and results as a worker does.
//   - A store that goes back in time has Fault.Back, and is to go back for all partitions alike.
//   - A fault that is over is Fault.From to Fault.To; one of a worker has a kind that begins
//     with "worker" and names it.
//   - Payloads differ from put to put, so that an operation of unknown outcome can be told by what ran.
//   - An operation that never left the client is Fail, not Info.
//   - A put without a due time, or with a relative one, has its NextRun in Answer: it is the
//     anchor that the rest is judged by.
//
// # Invariants
//
//	S1   nothing begins early                         check_runs.go
//	S2   nothing is invented                          check_runs.go; without ids: check_live.go
//	S3   nothing acknowledged is lost                 expect.go, check_admin.go
//	S4   nothing begins after it is done              check_runs.go
//	S5   a stale result changes nothing               check_runs.go
//	S6   an epoch has one owner                       check_audit.go
//	S7   writes are fenced                            check_audit.go
//	S8   operations on a job are linearizable         linear.go; lists: check_admin.go, check_revived.go
//	S9   leases do not overlap, limits hold           check_leases.go, check_runs.go
//	S10  a second attempt has a cause                 check_retries.go
//	S11  states change as they may, batches are whole check_audit.go, check_admin.go
//	S12  what did not run has a true reason           check_policy.go
//	S13  tenants see their own                        check_runs.go, check_admin.go
//	S14  nothing is left behind                       check_live.go
//	S15  who is silent gets nothing                   check_silent.go
//	S16  counters agree with runs                     check_counters.go
//	S17  what was lost is nowhere                     check_lapse.go
//	S18  a paused queue hands nothing out             check_paused.go
//	S19  what calendars exclude does not run          check_excluded.go
//	S20  no more attempts begin than a rate allows    check_rates.go
//	I11  retries are counted and spaced               check_retries.go
//	S2, S9, S10, I11, L1, L3 of jobs of Dapr          check_dapr.go
//	L1   nothing is late without an excuse            expect.go, times.go
//	L2   everything comes to rest                     check_live.go
//	L3   nothing is stuck                             check_live.go
//	L4   nobody is starved (a warning)                check_live.go
//
// What is not certain is not held against anybody: an operation of unknown outcome may have taken effect at
// any moment (Constants.Linger bounds it), a record that retention may have taken is not missed, a job with a
// ConcurrencyKey has all the time in which others may have its tokens, one with After has to run when all
// have succeeded, and a schedule that the oracle cannot read (L, W and # in the day fields) allows any time.
//
// A fault excuses what it can have caused and no more: a wrong clock so much as it was wrong (Fault.Skew), an
// endpoint that was down its own jobs. excuses_test.go has a pair of histories for each excuse: one that has
// it, and one that just has not.
//
// Jobs of Dapr have queues that begin with [DaprQueue]; a harness writes down with their attempts the uid of
// the job, when the stream ended that had one (LostWorker), when nobody watched ([Unserved]) and limits
// ([Gate]). A limit is excused by faults that can have reached the owner of a job's partition, that of the
// partition that counts the limit, or the node whose stream it is, and only as long as they last.
//
// All times are those of the harness, never of a node whose clock may be wrong. A payload is compared by its
// hash, whatever hash the harness takes.
package checker
