// Package sim runs a whole node, or several that share a store, with their workers, HTTP endpoints, clients
// and store, in one testing/synctest bubble, under faults drawn from a seed, and has
// server/internal/testing/checker judge what happened.
//
//	plan.go      Plan: everything that will be done in a run, each thing at its time; it can be written down and read back
//	generate.go  a seed makes a plan; generate_cluster.go: one of several nodes
//	world.go     Run: lives through a plan and returns the history
//	chance.go    where chance comes from: a function of the seed, who asks and what about, never of the order of asking
//	node.go      a node: engine and hub; it can be killed, and only what was durable survives
//	gate.go      a node that stands still
//	door.go      the order of calls that come to a node at one instant
//	link.go      what nodes say to each other: a network in memory that is slow, loses its way and comes back
//	nemesis.go   the faults of a cluster
//	lapse.go     a store that goes back in time
//	faultystore.go the store as a node sees it: delays, errors, lost acknowledgements, failing reads and leases
//	audit.go     what the store committed, for the checker
//	client.go    does the plan's operations and writes down what it was told
//	worker.go    runs, fails, hangs, crashes, answers late, twice, out of order or with made-up tokens
//	sidecar.go   sidecars of Dapr; watchstream.go: their streams; daprclient.go: what they ask for;
//	             generate_sidecars.go: what they do in a plan
//	halts.go     queues that are paused and resumed
//	dates.go     jobs with a calendar
//	endpoint.go  HTTP endpoints and the network in memory that leads to them
//	final.go     reads what is left at the end
//	trace.go     the hash of all that happened: two runs of a plan have the same one
//	shrink.go    drops what a failing plan does not need
//	soak.go      a long time of plain load, watched for growth
//
// # A run repeats itself
//
// A seed gives the same run each time because, in the bubble,
//
//   - chance is a function of the seed and of what is asked (chance.go);
//   - nobody who shares something with others acts at the same nanosecond as they do: each actor has a
//     residue, and waits until the clock shows it (pause);
//   - calls into a node that come at one nanosecond go in one after the other, in the order of their names
//     (door.go);
//   - no decision of the product hangs on the order of a map, or on a select with two ready cases.
//
// A run of a cluster that is to be the same each time needs one processor as well (-cpu 1). On several it is
// another one in about one of 200 cases: see TestReplayOfACluster.
//
// Dropping an operation from a plan therefore leaves the rest as it was, which is what the shrinker lives on.
package sim
