// Package worker implements the session of a connected worker: it grants credits, receives runs, and reports
// results and heartbeats.
//
// Outgoing messages are coalesced: [Session.Receive] returns everything that waits as one message, bounded in
// bytes and items. Nothing on the node waits for a worker: a session keeps what the worker has not received,
// within a bound, and is dropped when nothing was received for too long.
//
//	a session ends by      runs not yet received        runs received and unfinished
//	Close, lost stream     undelivered: no attempt used wait for their lease; any session may go on with the tokens
//	Goodbye                undelivered                  lost at once
//	never receiving        undelivered                  wait for their lease
//
// A session holds the attempts that it delivered and those for which it got heartbeats. So a worker that
// reconnected can be told to stop them like any other.
package worker
