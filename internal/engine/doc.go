// Package engine drives the partitions that this node owns: a goroutine each, around the pure state machine of package
// partition. It is the [carillon.Jobs] and [carillon.Runs] of the node.
//
// A round of the goroutine takes what has come in (calls, reports, beats, room in queues, a batch made durable), reads from
// the store what the machine lacks, lets the machine step, hands out deliveries and passes the next batch to the partition's
// committer. While one batch is being made durable the next one fills; nothing is answered before the batch that holds it is
// durable.
//
//	engine.go     claim, start and stop partitions
//	partition.go  the round
//	mailbox.go    what comes in
//	commit.go     batches on their way to the store, and what to do when one fails
//	sink.go       what consumers say
//	jobs.go runs.go list.go   the calls
//	stored.go     reads while a partition cannot serve
package engine
