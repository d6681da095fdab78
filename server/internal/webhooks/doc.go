// Package webhooks has events sent to the webhooks of namespaces.
//
// It reads the events that partitions record because webhooks ask for them, and puts a job for each
// webhook that selects one: a one-shot with the webhook's target, whose payload is the event as a CloudEvent.
// So an event is delivered, retried, kept when it is dead, signed and shown as every run is; here is nothing
// that could lose it.
//
//	partitions --records--> Follow --events--> jobs --durable--> position
//
// The position, how far events have been made jobs, is durable too, and moves after the jobs are. Whoever
// goes on from it, on this node or another, puts the last jobs again: those that are still there stay as
// they are, and an event whose job has ended is sent again. Its id tells the receiver.
//
//	sender.go  who tells, from where, and what is put
//	event.go   an event as a CloudEvent, and as a job
package webhooks
