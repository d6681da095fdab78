// Package chaos runs the real thing and treats it badly: `carillon serve` in a process of its own, clients
// and workers that work it over the network, and a nemesis that ends it with SIGKILL at random moments and
// starts it again in the same folder. What everybody saw goes into a history, which package checker judges.
//
//	go test ./server/internal/testing/chaos -run Kill -cycles 100 -seed 7     or: make chaos
//
// A cycle is: a node starts; it is killed while it starts, while it works, or while it drains; after a pause
// it is started again. After the last cycle everything heals: workers answer well, jobs are resumed,
// recurring jobs are deleted, and what is left must come to rest. A seed draws what happens; when it happens
// is up to the machine, so a seed repeats a run only roughly. The history is kept with the verdict: it is
// what a failure is looked into with.
//
// Against a cluster (TestCluster…) there are several nodes on one store, which are killed, halted, told to
// leave, added and removed, and cut off from the store, from each other, or from clients and workers, by
// package link; the store's server restarts, or fails over. Clients ask any node; workers know one address,
// or learn of all.
//
//	go test ./server/internal/testing/chaos -run ClusterPostgres -cycles 100 -seed 7 -nodes 3 -only "freeze,kill most"
//
// Nodes in the place of Dapr's scheduler have sidecars for workers (TestSidecars…). What those see is judged
// by package deliveries alone.
//
//	campaign.go   one node: options, cycles
//	workers.go    clients, workers and the endpoint, whatever they are set upon; coming to rest
//	cluster.go    several nodes, and the links between them; source_linux.go: who is at the other end of a connection
//	cluster_campaign.go, cluster_faults.go   cycles of what can go wrong with a cluster
//	owners.go     who owns what, as the store has it; roaming.go: clients that ask another node each time
//	backend.go    stores on real servers
//	process.go    the node's process
//	client.go     clients that put, delete, trigger, pause, patch, get, list
//	draw.go       what jobs they put
//	rest.go       one of them speaks REST
//	worker.go     workers of many bad habits
//	witness.go    what workers see and say, for both judges
//	elsewhere.go  a worker in a process of its own, which can be halted
//	endpoint.go   an HTTP target of as many
//	report.go     the ledger of receivers and the system's account, for package deliveries
//	final.go      coming to rest, and what is read at the end
//	sidecars_campaign.go, sidecar.go   nodes in the place of Dapr's scheduler, and sidecars
//	suspicion.go  a few direct questions to the history, in case the checker is wrong
package chaos
