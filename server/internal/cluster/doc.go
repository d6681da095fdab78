// Package cluster makes one scheduler of several nodes that share a store. It knows which members live, which
// should own each partition and which do, and sends every call to its partition, through a [Peer] if that is
// on another node. It knows no transport. Nothing that it believes has to be right: the store refuses writes
// of anyone but the newest owner.
//
// There is no leader. Each node writes a heartbeat into the store, reads the other members, and computes the
// owners from these alone. Nodes that see the same members agree. While they do not, a partition still has
// one owner, or none.
//
// [Node] runs this and brings together what the other files know:
//
//	node.go, members.go, exit.go     the loop; how a node joins, and how it leaves
//	membership.go                    the states of this process, from joining to closed
//	heartbeat.go, outage.go          since when the store has answered, and whether it failed as a whole
//	exclusive.go                     a node that must be the only member
//	clock.go                         how far the node's clock is off the store's
//	views.go, owners.go, allot.go    the newest view of members and owners; who should own what
//	assignment.go, successors.go     what the engine is to own; who takes over when a node leaves
//	fitness.go, prove.go             whether this node can own partitions
//	suspicion.go                     whether the others do
//	state.go, protocol.go            what a node says of itself to the others
//	arrivals.go                      which nodes came, left and were lost, in the log
//	settings.go, announce.go         settings of nodes, which should agree; changed settings of namespaces
//	limits.go                        limits that sidecars of Dapr have named, told to the other nodes
//	peers.go, status.go              connections to other nodes; what operators ask of all
//	router.go, router_*.go           the way of a call to its partition
package cluster
