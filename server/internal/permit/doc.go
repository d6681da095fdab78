// Package permit hands out the permits of concurrency keys: the rights to have one attempt in force. It is
// pure: what it is told comes from one goroutine at a time, and what it has to say is fetched.
//
// A node that is alone counts with one [Counter] for all its partitions. In a cluster every key has a home,
// the partition of its namespace and key, whose [Home] hands permits out to partitions; each partition has a
// [Pool], which uses what it was handed and nothing else. So the sum of what is in force is never more than
// the limit, whatever becomes of the messages between them:
//
//	machine ── Take, Free, Wait ──► Pool ──── Request: hold, want, order ───► Home ──► metadata records
//	                                 ▲                                          │
//	                                 └───────── Grant: n, next waiter ◄─────────┘
//
// Messages may be lost, late, doubled or out of order. A [message.Stamp] orders what a home says, so a pool
// takes no older grant; a home counts a permit as given back only when the pool says that it holds fewer.
// docs/decisions/0032 has the proof and what was rejected.
//
//	counter.go   all partitions of one node
//	home.go      what is handed out of a key, and who waits for it
//	pool.go      what one partition has of each key
//	standing.go  what is handed out, for people
//	named.go     the limits that sidecars of Dapr have named, here and on other nodes
//
// Package message has what homes and pools say to each other.
package permit
