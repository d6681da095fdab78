// Package sidecar implements the session of a Dapr sidecar that watches for jobs: the jobs of its app and the
// reminders of the actor types that it hosts.
//
// The protocol has no credits, no leases and no goodbye: a sidecar gets what is due and answers each run by
// the number under which it got it. Its stream is its heartbeat. So a run has no timeout while the stream
// lives; when the stream ends, all its runs are delivered elsewhere at once and use no attempt.
//
//	a session ends by               runs held, received or not
//	Close, lost stream              undelivered
//	not reading for too long        undelivered
//	the node leaves (Drain)         not received: undelivered at once; received: answered first, or undelivered at Close
//
// A run that is cancelled after the sidecar received it goes on, since the sidecar cannot be told. It takes a
// credit until its result comes, which changes nothing; under a limit it does not count any more.
//
// A sidecar names limits of actor types when it begins to watch. The engine has them hold over all nodes, by
// permits that each attempt takes ([Limits]).
package sidecar
