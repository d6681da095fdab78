// Package kafka publishes runs to the topics of Apache Kafka.
//
// A record is done when all in-sync replicas have it (acks=all). The producer is idempotent: franz-go sends
// again what was cut off, and the broker drops what it has already. The client never gives the same record
// to franz-go twice, except where the broker said that it did not take it.
//
// What an attempt becomes, truthfully:
//
//   - The broker cannot be reached, or the login fails: [broker.ErrUnsent]. The client asks the broker for
//     its name before it hands anything to franz-go, and again after everything that went wrong and after
//     every connection that ended.
//   - The broker says that it takes nothing now (too few replicas are in sync, a leader is being elected):
//     [broker.ErrUnsent] after [Options.SendWithin]. Bytes have left, but the broker has said that it does
//     not have the record. The same goes for a topic that this client has written to and that the broker
//     does not know: it may have just started.
//   - A produce request was cut off: franz-go sends it again until it is answered, and this client waits
//     for that, [Options.AnswerWithin] at most, or until the context ends. Then the broker may have the
//     record. franz-go cannot take back such a record, and goes on sending it; until it is answered, the
//     topic takes nothing else: what comes meanwhile is [broker.ErrUnsent].
//   - The broker gives an answer that leaves open whether it has the record, such as a time-out, or too few
//     replicas after the write: it may have the record, unless a later answer says that it has.
//   - The broker refuses for good (no such topic, too large, no right to write): [broker.ErrRefused]. Kafka
//     refuses a whole batch for one record in it, or because the batch as such is too large. Such a batch
//     is halved until the records are known that are refused alone.
//
// franz-go reports a record as failed only if the broker has answered, or nothing was sent: that is not
// enough, as the answer may be one to the second sending. So the client watches its connections: a produce
// request whose answer did not come, or leaves it open, makes the failure of all that was under way then one
// of neither kind.
// For the same reason one produce request at a time is under way to each broker: the failure of a batch
// fails those behind it.
//
// Topics do not wait for each other here: each has its own lane, with one lot under way. A broker, though,
// handles the requests of a connection one after the other. A topic whose leader waits for replicas holds
// up the others of this leader, by [Options.SendWithin] for each request at most.
//
// Headers are those of the CloudEvents binding for Kafka: the attribute ce-id is the header ce_id. The key
// is the target's, else the job's name as the header carillon-job has it, so that the runs of a job stay in
// order, else the run's id.
//
//	options.go  what a client needs
//	client.go   Publish and Close
//	lane.go     the records of a topic: one lot after the other
//	record.go   a message as a record; what an error means
//	wire.go     connections: which produce requests were not answered
//	answer.go   which answers leave open whether the broker has the records
package kafka
