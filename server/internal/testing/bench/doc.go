// Package bench is the load generator behind `carillon bench`: it loads a node with jobs, receives their runs
// and keeps a ledger of its own, apart from the node. A rate counts only if the ledger is clean: nothing
// missing, early or doubled.
//
//	bench.go       a node under load, a bench, its result
//	ledger.go      which runs there should be, and which there were
//	ticks.go       the same for recurring jobs
//	consumer.go    worker sessions that receive runs and answer them
//	load.go        putting many jobs: unary, batches, stream
//	latency.go     histograms
//	window.go      what is measured, from begin to end
//	profile.go     profiles over it
//	process.go     CPU time and memory of the node's process
//	spawn.go       a node of its own, as a child process
//	schedule.go … restart.go   one bench each
//	broker.go      runs that go to a message broker; package rates puts them beside the bare client
//	fleet.go       several nodes on one store; takeover.go and forward.go bench what only they do
//	stalls.go      where late runs lost their time; metrics.go reads what the node counts
//	growth.go      putting and firing as jobs, partitions and payloads grow
//	goals.go       all of them against the goals of docs/performance.md
//
// Arrivals are open-loop where a rate is given: what is late because the node is slow counts as late from the
// time at which it should have been sent.
package bench
