// Package etcd keeps a store in etcd 3.4 or newer.
//
// etcd has keys and values in one order, and transactions of some operations. So it keeps the jobs, pending
// runs and finished runs of a partition, a key each, and the node that owns the partition keeps the indexes
// in memory ([contents.Partition]), which it makes from the keys when it has claimed it. A batch is one
// transaction that compares the partition's head, a key that every batch and every claim writes:
//
//	Apply ─▶ a copy of what is in memory is changed ─▶ what differs, as puts and deletes
//	      ─▶ if the head is as it was: all of them, and the head ─▶ the copy takes its place
//
// So a batch is fenced by etcd itself at the moment of the write, what is in memory is what etcd has, and
// reads cost one small request that asks whether it still is.
//
//	options.go  Options, and how they are read from a URL
//	open.go     Store; what a store is created with
//	wire.go     calls to etcd, and whether one that failed was begun
//	keys.go     keys
//	values.go   values
//	replica.go  what a partition holds, in memory
//	heads.go    whether that is what etcd has
//	shard.go    a partition under a term
//	build.go    a batch as operations
//	commit.go   batches of several partitions in one transaction
//	staged.go   a batch that does not fit into one
//	gather.go   what is read of several partitions
//	leaser.go   claims and leases
//	members.go  members
//	clock.go    the time of etcd's members
//	maintainer.go   compaction, defragmentation, and what happens when there is no room
package etcd
