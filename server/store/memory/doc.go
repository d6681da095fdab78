// Package memory keeps a store in the memory of one process: for tests, for simulations and for trying things
// out. It keeps the whole contract of package store except that nothing outlives the process.
//
//	memory.go     Store and its options
//	partition.go  one partition: its lock, its owner; package contents has what it holds
//	group.go      batches of several partitions in one step
//	shard.go      a partition as the owner of one term sees it
//	leaser.go     claims and leases; package members keeps the members
//	past.go       a failover that loses what was written last
//
// It starts no goroutine, never waits while it holds a lock and reads the time only through [Options.Now], so
// it works inside a testing/synctest bubble. What it stores and what it returns are copies; what is stored is
// never changed, only replaced.
package memory
