// Package cassandra keeps a store in Apache Cassandra 5, or in what speaks its protocol.
//
// Cassandra can change rows on a condition, all or none of them, as long as they are of one table and share
// one partition key. It is slow where much is deleted: reads pass over what deletions have left behind. So a
// partition of the store is a log, cut into segments, each of which is a partition of Cassandra. Nothing in
// it is changed or deleted row by row; the node that owns the partition keeps what the log says in memory
// ([contents.Partition]), with its indexes:
//
//	    first                                          last
//	┌───────────┐   next   ┌───────────┐   next   ┌───────────┐
//	│ segment 7 │ ───────▶ │ segment 8 │ ───────▶ │ segment 9 │ ◀── batches, if its term is the owner's
//	└───────────┘          └───────────┘          └───────────┘     and its last batch the one before
//	      │  the rows that are still of use
//	      └────────────────────────────────────────────▲    then the segment is deleted as a whole
//
// A batch is one conditional batch of Cassandra: its rows, and the number of the last one, if the segment's
// term is the owner's. A claim sets that term, so an older owner can write no more, whenever its request
// arrives. Who follows the owner reads the rows that have come since it read last.
//
//	options.go  Options, and how they are read from a URL
//	open.go     Store
//	schema.go   tables, and how consistent reads and writes are
//	check.go    what Cassandra is set up to lose
//	clock.go    the time of its nodes
//	wire.go     calls to Cassandra
//	errors.go   what their errors mean
//	row.go      changes as rows
//	tail.go     what a segment says of itself
//	replica.go  what a partition holds, in memory
//	player.go   how that is made of a log
//	shard.go    a partition under a term
//	commit.go   how batches are added to the log
//	fence.go    how a term is put in force
//	cleaner.go  how segments go
//	gather.go   what is read of several partitions
//	leaser.go   claims and leases
//	members.go  members
package cassandra
