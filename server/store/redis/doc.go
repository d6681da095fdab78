// Package redis keeps a store in Redis 7 or newer, or Valkey: one server, or a Redis Cluster.
//
// All keys of a partition are in one hash slot. A batch is one Lua script, which Redis executes by itself: it
// compares the term, then applies the whole batch. Redis writes what a script did as one transaction to its
// append-only file and to its replicas, so that a crash keeps all of it or nothing.
//
// # What it promises
//
// With appendonly yes and appendfsync always, the whole contract of package store, through a crash of the
// node and of Redis: Redis answers after the fsync. With everysec a crash of the machine may take the last
// second or two of what was acknowledged; without an append-only file, everything since the last snapshot.
//
// Replication is asynchronous. A failover may lose what the old primary acknowledged last, whatever
// appendfsync says, and a primary that is cut off from the others goes on acknowledging what will be lost.
// The store cannot prevent that, but it does not mix the two histories: a claim remembers the server's
// replication id, which changes at a failover and at a restart, and each batch compares it. The owner is
// deposed, claims again and goes on from what the new primary has.
//
//	options.go  Options, and how they are read from a URL
//	open.go     Store
//	create.go   what a store is created with; a store of an older format
//	wires.go    connections
//	examine.go  what is wrong with the keys of a partition
//	check.go    what is wrong with how the server is set up
//	keys.go     keys, and members of sorted sets
//	values.go   what is stored of records and runs
//	apply.go    a batch as arguments of apply.lua
//	shard.go    a partition: records
//	runs.go     a partition: finished runs and metadata records
//	leaser.go   members, claims and leases
//	errors.go   how a batch ended that Redis answered with an error, or not at all
//	lua/        the scripts
package redis
