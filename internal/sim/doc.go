// Package sim runs a whole node, with its store, clients and workers, in one testing/synctest bubble, under faults drawn from
// a seed, and judges what happened.
//
//	sim.go      Run: a seed gives the jobs, the operations on them and the faults
//	node.go     the node: engine and hub; it can be killed, and only what was durable survives
//	faults.go   the store between node and memory: delays, errors, acknowledgements lost after the write
//	client.go   puts, edits, pauses, triggers and deletes jobs, and writes down what it was told
//	worker.go   runs, fails, hangs, crashes, answers late, twice or with made-up tokens, and writes down what it saw
//	ledger.go   what was written down
//	checker.go  Check: a pure function of the ledger, with a naive reading of its own of what should have happened
//
// The ledger is kept apart from the node: nothing in it comes from the product but the answers that clients and workers got.
package sim
