// Package httptarget delivers runs by HTTP request.
//
//	request.go   what is sent: the payload, its origin, and its signature
//	secret.go    headers whose values are secrets of the operator
//	guard.go     which addresses may be dialled
//	answer.go    what an answer, or none, means
//	host.go      how many requests a host gets at once, and when it has asked for fewer
//	target.go    the pool of connections, and what is in flight
//	sending.go   that an attempt is written once: connections of HTTP/1
//	http2.go     the same for HTTP/2
//
// # What is sent
//
// The payload, with the job's method and headers and the following headers, which the job's cannot replace:
//
//	ce-specversion ce-id ce-source ce-type ce-subject ce-time    CloudEvents 1.0, binary mode; ce-id is the run id
//	Idempotency-Key           the run id, equal on every attempt
//	Carillon-Job              namespace/name; percent-encoded, as the values of the ce- headers are
//	Carillon-Scheduled-Time   the time that the schedule gives, RFC 3339
//	Carillon-Attempt          from 1
//	Carillon-Deadline         end of the attempt's timeout, RFC 3339
//	Carillon-Token            proves the attempt; an asynchronous target completes the run with it
//	traceparent tracestate    W3C; the attempt's span (docs/operations.md)
//	webhook-id webhook-timestamp webhook-signature    Standard Webhooks, if the namespace has signing secrets
//
// # What an answer means
//
//	2xx                       succeeded
//	202, Carillon-Async: 1    the target has accepted the run and completes it later with its token
//	400, 413, 415, 422        failed permanently
//	410                       failed permanently, and the job is paused
//	3xx                       failed; never followed
//	429, 503                  failed; the whole host is slowed down, as with HTTP/2's REFUSED_STREAM
//	anything else, or none    failed
//
// A failed attempt is retried by the job's policy, no earlier than Retry-After (seconds or a date, at most
// [MaxRetryAfter]). The status decides: once it has arrived, the body has [BodyTimeout] to arrive, and what
// is missing of it does not matter.
//
// A refused address fails permanently, so that a misconfiguration is noticed instead of being retried for
// hours. After --allow-target is set, the dead runs can be redriven.
//
// # Slowing down
//
// A host begins with [Options.HostLimit] concurrent requests. On 429 or 503 that limit is halved, once for
// all requests that were under way together, and deliveries pause: for Retry-After (at most [MaxPause]) or
// else for 1 s, twice as long each time until another answer comes, at most 30 s. Each full round of other
// answers raises the limit by one. Each namespace counts its hosts separately, so no tenant slows another
// down.
package httptarget
