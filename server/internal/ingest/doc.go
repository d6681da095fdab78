// Package ingest takes commands from the topics of message brokers, and has each done effectively once
// (docs/ingest.md, docs/decisions/0091).
//
//	config.go    what one ingest is
//	event.go     a message as a CloudEvent
//	command.go   an event as a command
//	schema.go    the JSON schema of events
//	status.go    how topics stand, for people
//	set.go       the ingests of a node, as its file has them at present
//	ingest.go    one ingest: its topics, their priority, what is under way
//	group.go     messages that came together, tried together once
//	item.go      one message: tried until it is done, or in the dead-letter topic
//	letters.go   the dead-letter topic
//	outage.go    what the log says of what does not work
//	limit.go     how long a command may take
//	slots.go     how many messages are under way, the earlier topic first
//
// A message is acknowledged when its change is durable, or the broker has it durably in the dead-letter
// topic. It may come again: the partition remembers the source and the id of each event for a time
// ([message.Command]). Commands of one job are done one after the other, in the order in which they came.
// Should two nodes do the same records of Kafka for a moment, as when a partition of a topic moves, the order
// holds: each does them in order, and what one has done, the other finds done. The other brokers give what
// was not acknowledged to another consumer later, after newer messages.
package ingest
