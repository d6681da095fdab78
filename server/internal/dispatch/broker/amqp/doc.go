// Package amqp publishes to brokers that speak AMQP 0-9-1, such as RabbitMQ.
//
// A client has a connection, and on it a channel for each exchange and routing key, with publisher
// confirms. So a channel that the broker closes, because its exchange does not exist or the user may not
// write there, takes no messages of other targets with it. A channel begins with one message, and goes on
// when that is answered: whom the broker means when it closes a channel is then known. A message that is
// larger than any before it is sent alone for the same reason, from 64 KiB on. Where a channel is closed with
// several messages under way, the broker may have some of them: they fail, and are not refused.
//
// At most 256 targets have a channel of a connection at a time. Idle ones give way. A target that has waited
// for a channel for 1 s gets one of another connection, since the others may all belong to one slow queue;
// such a connection ends when nobody has used it for a minute. With 64 connections, targets wait. At most 512
// messages of a channel are unanswered; its others wait. A queue that answers nothing lets RabbitMQ stop to
// read from a connection only after more than these.
//
// What is true of a message:
//
//	ack                       the broker has it; on a durable queue, on disk
//	return, then ack          refused: no queue gets it (all are mandatory)
//	nack                      failed: a queue is full, or could not store it
//	channel closed            refused by 403, 404, 406 or 311, if it was alone; else the broker may have it
//	connection lost, ctx ends the broker may have it; nothing was sent of those that still waited
//	connection.blocked        nothing is sent until the broker has memory and disk space again
//
// Notes on the library, amqp091-go 1.16.0, and what is done about it:
//
//   - A write has no deadline, and while it is stuck in a full socket, the connection's shutdown waits for
//     the channel's lock before it closes the socket: heartbeats notice a dead broker, and nothing ends.
//     Hence [wire] gives each write a deadline, and is closed as soon as the library says that the connection
//     is lost. Publish never writes itself, so ctx bounds it whatever the socket does.
//   - Channel.NotifyPublish reports an earlier nack as an ack when a later ack is for several messages
//     (confirms.Multiple): of 999 messages that RabbitMQ had not taken, 950 were reported as taken.
//     DeferredConfirmation keeps them apart, and is what is used.
//   - A listener that is full for 5 s loses what it is to hear. Of returns that would turn "no queue" into
//     success. The channel of returns has room for all messages under way.
//   - Strings over 255 bytes, and headers over the negotiated frame size, end the connection. They are
//     refused before.
//   - Each message is flushed on its own. [wire] collects what is published in one go.
//
// The files:
//
//	options.go   what a client is made with
//	client.go    the client: publish, close
//	batch.go     what was handed over together, and what became of it
//	links.go     which connections there are
//	link.go      one connection, from its making to its loss
//	channel.go   one channel: its queue, its end
//	answers.go   what is sent on a channel, and what the broker answers
//	message.go   a message's form on the wire, and its limits
//	wire.go      the socket: deadlines, one write for several messages
//	source.go    the messages of a queue, for ingest
//	inbox.go     what the library has handed over of them
package amqp
