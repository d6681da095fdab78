// Package multisession makes one worker's session out of a session with every node of a cluster.
//
// Each node hands out the runs of the partitions that it owns, so a worker must be served by all of them. [Open] begins with
// one node's session, learns from it where the others are ([carillon.WorkResponse].Nodes), and has a session with each of them as
// long as it lives. Whoever uses the session sees one scheduler:
//
//	          ┌──────── credit pool per queue: credits ───────┐
//	worker ── Session ── node ── carillon.Session ── node of the cluster
//	              └───── node ── carillon.Session ── …
//
//	Send     credits go into the credit pool, which decides who gets them; results and heartbeats to the node that the run came from,
//	         or to any if that is gone, since every node passes on what is for another
//	Receive  what the nodes say, as it comes; what is about credits alone is settled here
//
// A worker's credits of a queue are one credit pool: there are never more runs out than it granted, whatever the number of nodes. A
// node with runs that wait and no credits says so; the credit pool then gives it what comes free, or takes unused ones back from a
// node that does not need them.
//
// As long as a session knows of one node only, calls go straight through to it.
package multisession
