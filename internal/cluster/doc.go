// Package cluster makes one scheduler of several nodes that share a store. It knows who lives (members.go), who should own which
// partition and who does (owners.go), and does every call where its partition is (router.go), through a [Peer] if that is not
// here (peers.go). It knows no transport, and nothing it believes decides anything: the fence in the store does.
//
// There is no leader. Each node writes itself into the store again and again, reads who else has, and computes the owners from
// that alone; nodes that see the same members agree. While they do not, a partition has one owner all the same, or none.
package cluster
