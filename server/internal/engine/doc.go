// Package engine runs the partitions that this node owns, each with the pure state machine of package
// partition. It implements [carillon.Jobs] and [carillon.Runs] for the node.
//
// A partition belongs to a lane, whose goroutine runs the rounds of its partitions one after the other. On an
// embedded store all partitions are in one lane (docs/decisions/0023). A round takes the partition's mail
// (calls, reports, heartbeats, slots of queues, a durable batch), reads from the store what the machine
// lacks, steps the machine and hands out deliveries. Then the lane submits the next batches of its partitions
// to the store as one group. While one group is being made durable the next one fills. Nothing is answered
// before the batch that holds it is durable.
//
//	engine.go     start and stop, and which noun knows which
//	lane.go       the event loop of several partitions
//	partition.go timers.go figures.go  the round of a partition; when it runs; what others may read of it
//	ownership.go  who owns a partition: states and transitions; what follows when a lease is lost
//	mailbox.go    what comes in
//	calls.go      how a call gets into a round, and its answer out
//	commit.go replies.go  batches on their way to the store, and who waits for them
//	assign.go     which partitions to own, and handing over the others
//	claims.go     claiming and releasing partitions
//	takeover.go snapshot.go  loading a partition: earlier terms, metadata records
//	term.go       the beginning of a term, its hand-over, its loss
//	lease.go      renewing leases, and giving up in time
//	ownershiplog.go  log lines about what becomes of partitions
//	deadlog.go       log lines about dead runs
//	outage.go     what fails: a partition, or the whole store
//	sink.go intake.go  what consumers report: into mailboxes; into the machine, with a verdict
//	orphans.go    attempts of ended terms that consumers of this node may still run
//	relay.go      what consumers report of orphans, on its way to the partition's new owner
//	feed.go rooms.go  due runs: reading; handing out and parking, as there is room
//	reads.go roundrecords.go  reads of a round, on a store that may not answer; what they bring in
//	ahead.go      reads for waiting calls, beside the lane
//	partitions.go finding partitions, here and on other nodes
//	messages.go   how what they ask of each other is served
//	peerqueue.go  notices on their way to other nodes
//	batches.go    jobs that are stored together
//	groupput.go   the same across partitions of one lane
//	intents.go marks.go       the same across any partitions
//	terms.go      why intents and shares go by terms
//	dependencies.go waiters.go  what partitions tell each other about jobs that wait for others
//	limits.go clusterpermits.go  concurrency limits, on one node and over all
//	namedlimits.go  limits that Dapr's sidecars have named, at any node
//	calendars.go  calendars of namespaces: the calls, and how jobs find them
//	namespaces.go keptsettings.go  settings of namespaces: the calls and over all, in one partition
//	queues.go purge.go  which queues are paused, by the store; the end of what waits in one
//	jobs.go runs.go backfills.go list.go   the calls
//	merge.go pagetoken.go  pages of lists over partitions, their tokens
//	advice.go     warnings in the answer to a put
//	audit.go audit_list.go  who has called what: recorded with what it changes; lists, verification
//	audit_log.go      who is told of what is recorded
//	callers.go    the trace that a call belongs to
//	watch.go      what happens, told to watchers
//	tail.go recorded.go  what watchers of this node have in common; records of events
//	census.go     how many runs are staged and dead
//	limituses.go  how many permits are handed out
//	hold.go hold_text.go  why a run does not go on, as far as others than its partition know
//	stored.go     reads while a partition cannot serve
package engine
