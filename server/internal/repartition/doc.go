// Package repartition gives what moves from a store to another the places that it has under another number of
// partitions (docs/decisions/0087).
//
//	records of partition p ─ In(n), by name ─► buffers, by new partition ─► batches
//	what a partition says of itself (terms, permits, parked queues, events) ─ collected ─► written at the end
//
// Every job, run and setting that is read must come back from the new store, in its new place: check sums up
// both without what depends on the number of partitions.
package repartition
