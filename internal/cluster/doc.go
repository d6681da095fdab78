// Package cluster makes one scheduler of several nodes that share a store. It tracks which members live
// (members.go), which should own each partition and which do (owners.go), and sends every call to its
// partition (router.go), through a [Peer] if that is on another node (peers.go). It knows no transport.
// Nothing that it believes has to be right: the store refuses writes of anyone but the newest owner.
//
// There is no leader. Each node writes a heartbeat into the store, reads the other members, and computes the
// owners from these alone. Nodes that see the same members agree. While they do not, a partition still has
// one owner, or none.
package cluster
