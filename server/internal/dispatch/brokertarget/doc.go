// Package brokertarget delivers runs to message brokers, through clients of package broker.
//
//	message.go    what is sent: the payload, and headers that every broker can carry
//	set.go        the brokers that the node knows, and their change while it runs
//	transport.go  what is in flight, at all queues of a kind
//	queue.go      one queue: what it gives to its client, in order, and what the answers mean
//	settle.go     outcomes, told together; a broker that is away
//	payload.go    payloads that are kept apart from their jobs
//
// # What an outcome means
//
//	acknowledged       succeeded; or, of a target that awaits completion, the run goes on until a consumer
//	                   completes it by its token. Such an attempt is durable before it comes here
//	broker.ErrUnsent   the run is handed back: it uses no attempt. The queue pauses
//	broker.ErrRefused  failed permanently
//	anything else      failed, and the broker may have it; retried by the job's policy
//
// A queue is a topic, exchange, subject or stream, of one namespace. What a partition hands over at a time is
// one publish. While a broker is away its queues pause, each for 1 s at first, twice as long each time, 30 s
// at most; after a pause one run tries, and if it is acknowledged all go on.
package brokertarget
