// Package natsbroker publishes to NATS: to the streams of JetStream, or to core NATS.
//
// A message of JetStream is acknowledged when its stream has it; its id is the run's, so that the stream
// keeps one message of all attempts within its window for duplicates. Nothing is sent twice by the client
// itself: a connection that breaks is replaced, and what was under way is reported as that.
package natsbroker
