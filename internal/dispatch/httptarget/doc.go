// Package httptarget delivers runs by HTTP request.
//
//	request.go   what is sent: the payload, who it is from, and its signature
//	guard.go     which addresses may be dialled
//	answer.go    what an answer, or none, means
//	host.go      how many requests a host gets at once, and when it has asked for fewer
//	target.go    the pool of connections, and what is in flight
//	sending.go   that an attempt is written once: connections of HTTP/1
//	http2.go     the same for HTTP/2
//
// # What is sent
//
// The payload with the job's method and headers, and beside them, not to be replaced by the job's:
//
//	ce-specversion ce-id ce-source ce-type ce-subject ce-time    CloudEvents 1.0, binary mode; ce-id is the run id
//	Idempotency-Key           the run id, equal on every attempt
//	Carillon-Job              namespace/name, percent-encoded like the ce- headers where it is not plain ASCII
//	Carillon-Scheduled-Time   when the schedule meant it, RFC 3339
//	Carillon-Attempt          from 1
//	Carillon-Deadline         end of the attempt's timeout, RFC 3339
//	Carillon-Token            proves the attempt; an asynchronous target completes the run with it
//	traceparent               W3C; the trace is the run's, the span the attempt's
//	webhook-id webhook-timestamp webhook-signature    Standard Webhooks, if the namespace has signing secrets
//
// # What an answer means
//
//	2xx                       done
//	202, Carillon-Async: 1    the target has taken the run and completes it later with its token
//	400, 413, 415, 422        failed for good
//	410                       failed for good, and the job is paused
//	3xx                       failed; never followed
//	429, 503                  failed; the whole host is slowed down, as with HTTP/2's REFUSED_STREAM
//	anything else, or none    failed
//
// What failed is retried by the job's policy, no earlier than Retry-After (seconds or a date, at most [MaxRetryAfter]).
// The status decides: once it is here, the body has [BodyTimeout] to arrive and what is missing of it does not matter.
//
// An address that is refused fails for good, so that a misconfiguration is loud instead of being retried for hours; after
// --allow-target is set, the dead runs can be redriven.
//
// # Slowing down
//
// A host begins with [Options.HostLimit] requests at once. On 429 or 503 that is halved, once for all the requests that
// were under way together, and nothing is delivered before Retry-After (at most [MaxPause]) or else for a pause of 1 s,
// twice as long each time until another answer comes, at most 30 s. Each full round of other answers raises the number by
// one again. Hosts are told apart per namespace, so no tenant slows another down.
package httptarget
