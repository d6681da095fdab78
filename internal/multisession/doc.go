// Package multisession combines sessions with every node of a cluster into one worker session.
//
// # Overview
//
// Each node dispatches only the runs of the partitions that it owns, so a worker needs a session with every
// node. [Open] starts from one node's session, learns from it where the other nodes are
// ([carillon.WorkResponse].Nodes), and keeps a session with each of them for as long as it lives. Its user
// sees one scheduler:
//
//	         ┌──────── credit pool per queue: credits ───────┐
//	worker ── Session ── node ── carillon.Session ── node of the cluster
//	             └───── node ── carillon.Session ── …
//
// Send gives credits to the credit pool, which decides which node gets them. It sends results and heartbeats
// to the node that the run came from. If that node is gone, they go to any other: every node relays reports
// to the partition's owner. Receive returns the nodes' messages in the order of arrival; what concerns
// credits only is handled here.
//
// As long as a session knows of only one node, calls go straight through to it.
//
// # Credits
//
// A worker's credits of a queue form one pool, so that the runs that are out never exceed what the worker
// granted, whatever the number of nodes. If each node had credits of its own, a worker with room for ten runs
// could get ten from each node; if each got a fixed share, a node with many due runs would wait while credits
// lie unused elsewhere. So credits move: a node with waiting runs and no credits reports it, and the pool
// gives it the next free credit or asks a node with unused ones to give some back. creditpool.go has the
// states and the rules.
//
// # Lost and suspect nodes
//
// The end of a node's session frees its credits, and results that it did not acknowledge are sent to another
// node. A node that stays silent without an error is suspect: suspect.go explains what is sent twice then,
// and how two answers to one result become one.
//
// # Files
//
//	session.go, state.go          what the worker sends, and the states of its session
//	receive.go, notices.go        what it receives: from the nodes, and from the session itself
//	nodes.go, dialer.go           which nodes are connected, and what follows when one is lost
//	node.go                       the session with one node
//	allocation.go, creditpool.go  who gets the credits
//	flights.go                    which node each run came from
//	awaiting.go, reply.go         what a node was sent and has not answered
//	suspect.go, copies.go         what two nodes get, and whose answer counts
//	tokenset.go, alarm.go         tokens that are remembered for a while, and a timer
package multisession
