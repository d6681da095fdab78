// Package sidecar is the session of a Dapr sidecar that watches for jobs: the jobs of its app and the reminders of the
// actor types that it hosts.
//
// The protocol knows no credits, no leases and no goodbye: a sidecar gets what is due and answers each run by the number
// under which it got it. Its stream is its sign of life, so there is no timeout of a run while the stream lives, and when
// it ends everything that it held is delivered elsewhere at once, no attempt used.
//
//	a session ends by               runs held, received or not
//	Close, lost stream              undelivered
//	not reading for too long        undelivered
//	the node leaves (Drain)         not received: undelivered at once; received: answered first, or undelivered at Close
//
// A run that is cancelled after it was received goes on at the sidecar, which cannot be told. It counts against the limits
// of its queue until its result comes, and that changes nothing.
package sidecar
