// Package engine drives the partitions that this node owns, each with the pure state machine of package partition. It is the
// [carillon.Jobs] and [carillon.Runs] of the node.
//
// A partition belongs to a lane, whose goroutine runs the rounds of its partitions one after the other; on an embedded store all
// partitions are in one lane (docs/decisions/0023). A round takes what has come in for the partition (calls, reports, heartbeats, room
// in queues, a batch made durable), reads from the store what the machine lacks, lets the machine step and hands out deliveries.
// Then the lane passes the next batches of its partitions to its committer, as one group. While one group is being made durable
// the next one fills; nothing is answered before the batch that holds it is durable.
//
//	engine.go     start and stop
//	lane.go       a goroutine that runs rounds
//	partition.go  the round of a partition
//	mailbox.go    what comes in
//	commit.go     batches on their way to the store
//	assign.go     which partitions to own, and handing over the others
//	claims.go     claiming partitions
//	term.go       their terms, and what to do when one is lost
//	lease.go      keeping them, and giving up in time
//	sink.go       what consumers say
//	relay.go      the same of partitions that have gone to another node
//	looks.go      reads of a round, on a store that may not answer
//	partitions.go peerqueue.go  what partitions ask of each other, wherever they are
//	batches.go    jobs that are stored together
//	groupput.go   the same across partitions of one lane
//	intents.go marks.go       the same across any partitions
//	dependencies.go what partitions tell each other about jobs that wait for others
//	jobs.go runs.go list.go   the calls
//	stored.go     reads while a partition cannot serve
package engine
