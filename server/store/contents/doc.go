// Package contents keeps what a partition holds in memory, with every index that the queries of a
// [store.Shard] need. It has no owner, no lock and no durability: those are of the stores that use it.
// Package memory keeps nothing else; an engine whose server has only keys and values keeps the values there,
// and its indexes here.
//
//	contents.go  Partition: how a batch changes it, and what is asked of it
//	records.go   records and their indexes: by name, due, staged, by phase, live
//	history.go   finished runs: by job, by id, by status, by age
//	count.go     counts for operators
//
// What is stored is never changed, only replaced, and what is taken and returned are copies.
package contents
