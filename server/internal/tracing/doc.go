// Package tracing makes spans of calls, attempts and HTTP requests, and exports them by OTLP with
// OpenTelemetry's SDK.
//
//	options.go   where spans go and which are recorded: a flag, and OpenTelemetry's variables
//	tracing.go   the SDK, put together; its end
//	attempts.go  spans of attempts: their ids, their attributes
//	calls.go     spans of calls of the APIs, and of requests to HTTP targets
//	export.go    how many spans were exported, and how many were not
//
// # Spans
//
//	caller's span
//	└─ carillon.v1.SchedulerService/PutJob    SERVER    a call that changes something, of gRPC, REST or Dapr
//	   ├─ deliver QUEUE                       PRODUCER  the first attempt, until its end; links to the call
//	   │  └─ HTTP POST                        CLIENT    the request to an HTTP target
//	   └─ deliver QUEUE                       PRODUCER  the second attempt
//	      └─ …                                          what the consumer makes of it
//
// A run of a recurring job, or of a backfill, has a trace of its own: a job may run for years after the call
// that put it. Its attempts are the roots of that trace and link to the call.
//
// The span of an attempt is made at its end, by the node that then owns the partition, with the ids that
// [delivery.Attempt] derives: those that the consumer was given by the node that handed it out, which may be
// another one, and dead. So no span is lost with a node but those that it had not exported yet, and nothing
// is written for them.
package tracing
