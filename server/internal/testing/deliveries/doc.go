// Package deliveries judges a scheduler from its receivers: HTTP endpoints and workers write down each
// request that reached them, and at the end that ledger is matched with the history that the healed system
// tells, both ways.
//
// [Audit] is a pure function of a [Ledger] and a [History]. It imports nothing of the product, and shares
// nothing with package checker: that one stands inside and has to excuse what a system may forget in a crash;
// this one asks only whether the system's account of itself is true. What is not certain is not held against
// it, but the excuses are few and each names an event:
//
//	an owner that ended without order (Break.Ends)   its attempts in flight may come again
//	a link or a node that held (Break.Holds)         an answer may have come after the lease
//	a link or a receiver that lost something (Loss)  an attempt that failed may have been seen by nobody
//	a call that changed the job (Touch)              its runs may have ended otherwise than they would have
//
// # Rules
//
//	denied    a run that was seen is in the history
//	skipped   a run that was seen is not recorded as skipped, nor is its time within a stretch that is
//	count     the history knows at least the attempts that were seen
//	success   a success that was answered stays one
//	nobody    what is in the history as succeeded was answered so by somebody
//	unseen    an attempt that nobody saw failed, and something was lost then
//	twice     an attempt is delivered once, unless its owner ended without order
//	token     an attempt that is delivered again carries the same token
//	refused   the result of the attempt in force, with its token and within its lease, is not stale
//	repeats   a job with repeats has as many runs, no more and no fewer
//	counters  a job's counters are the sums of its history
//	stopped   a receiver that let a lease end without a word gets nothing of that node before it speaks
//
//	ledger.go   what receivers write down
//	history.go  what the system says, and what was done to it
//	audit.go    the rules about one run
//	again.go    what excused each attempt that came twice, for people
//	jobs.go     the rules about one job
//	stopped.go  the rule about receivers
//	triggers.go what sidecars of Dapr saw, by rules of their own
package deliveries
