// Package delivery has what passes between the partitions of a node and those who hand runs out: a due run
// waits in a [Queue], dispatch offers [Slots] there, the partition answers with a [Delivery], and the
// consumer sends a [Report] back, or is told to stop by a [Cancel].
//
//	queue.go     where runs wait for consumers
//	limit.go     concurrency keys and limits of actor types, and where runs wait for their permits
//	delivery.go  slots, deliveries and cancels
//	consumers.go who takes the runs of a queue
//	report.go    a report, and who is told its outcome
//	trace.go     trace contexts of attempts
package delivery
