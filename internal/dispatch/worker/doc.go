// Package worker is the session of a connected worker: it grants credits, gets runs, reports results and heartbeats.
//
// What goes out is coalesced: [Session.Receive] returns everything that waits as one message, bounded in bytes and items.
// Nobody waits for a worker: a session keeps what it cannot hand over, within a bound, and is dropped when nothing has
// been received for too long.
//
//	a session ends by      runs not yet received        runs received and unfinished
//	Close, lost stream     undelivered: no attempt used wait for their lease; any session may go on with the tokens
//	Goodbye                undelivered                  lost at once
//	never receiving        undelivered                  wait for their lease
//
// A session holds the attempts that it handed over and those it has heard heartbeats of, so a worker that reconnected is told
// to stop them like any other.
package worker
