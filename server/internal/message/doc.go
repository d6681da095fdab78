// Package message has what is said to a partition: the messages that partitions and nodes send to each other,
// and the tokens by which consumers name attempts. It is to the packages partition, permit, engine, cluster
// and peer what raftpb is to raft: each knows the messages, none needs to know who sends or carries them.
//
//	message.go     what a message is, how it is sent, and the errors of one that was not carried out
//	calls.go       calls that another node has taken
//	dependency.go  dependencies between jobs, and the notices that jobs succeeded
//	share.go       the parts of a batch put across partitions
//	permits.go     permits of a concurrency key, between its home and the partitions that use them
//	limits.go      the limits that the sidecars of a node have named
//	events.go      what watchers of events ask for
//	audit.go       who makes calls: entries by themselves, and who gives commands
//	reports.go     reports of consumers, on the way to another owner
//	token.go       the proof that a report is of the attempt in force
package message
