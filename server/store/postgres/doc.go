// Package postgres keeps a store in a PostgreSQL database: jobs, finished runs and ownership are tables that
// an operator may read. It needs PostgreSQL 12 or later, and one database, or one schema of it, for itself.
//
//	open.go        Store, and how one is opened
//	connect.go     connections, and what every session sets
//	check.go       servers that are refused, and settings that are warned of
//	migrate.go     the tables, made and brought up to date; migrations/*.sql are their versions
//	shard.go       a partition as the owner of one term sees it
//	apply.go       how batches are written: the fence, the order of the statements
//	changes.go     what batches hold, as the columns that the statements take
//	outcome.go     what an error says about a write
//	examine.go     what is wrong with the rows of a partition
//	records.go     reads of jobs and pending runs: by name, due, staged, live
//	runs.go        reads of finished runs
//	metarecords.go reads of metadata records
//	leaser.go      members and leases
//	claim.go       claims, and the end of sessions that block them
//
// # The fence
//
// All batches of a group travel in one round trip and are one transaction. Its first statement locks the rows
// of the partitions' owners FOR SHARE where epoch and nonce are as expected, and fails unless it finds all of
// them. It must be the row that this very server has written since it was started, where it was written: a
// promoted standby, or a copy that was restored, may have the term of an owner that remembers more than it
// does. A claim updates the row: it waits until the transaction has ended, or the transaction finds that its
// term is over. (A plain SELECT, EXISTS and even FOR KEY SHARE let a stale write land beside a claim.)
//
// # Order
//
// Names are compared as bytes (COLLATE "C"). Unsigned numbers are stored as PostgreSQL's signed ones: a
// sequence of 2^63 or more, which no job reaches, would stand before the others.
package postgres
