// Package stream is what the sessions of connected consumers have in common, workers' and Dapr sidecars'.
//
// A [Stream] holds a consumer's attempts from their delivery to their end:
//
//	                Hold              Take                Release, then Free
//	Hub.Deliver ───────────► waiting ──────► received ─────────────────────────► slot is free
//	                            └──── Release, GiveBack ───────────────────────────────▲
//
// It wakes [Receive] when something waits, bounds what waits in bytes, ends a stream that is not received
// for too long, and at its end hands back what the consumer does not run. What a session says beside runs
// ([Others]), what it does with results, and how it answers them, are its own.
//
// A step is what happens between [Stream.Lock] and [Stream.Unlock]. The lock guards the session's own state,
// too. Unlock passes on what the step released, so that the hub and the sink are called without the lock.
//
//	file         what it has
//	stream.go    a stream's states, its attempts and its steps
//	receive.go   messages to the consumer, and a consumer that does not receive
//	waiting.go   the queue of attempts that were not received
package stream
