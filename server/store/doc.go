// Package store is the contract between Carillon's engine and the database that keeps its jobs. An
// implementation stores records and keeps their indexes; it decides nothing about jobs.
//
// A [Store] is divided into partitions. A partition has one writer at a time: the [Leaser] gives it a [Term],
// and every write carries the term in the same commit as the data, so that a deposed owner's write cannot
// land. All writes of one step are one [Batch], which is applied whole or not at all. [Shard] explains why.
//
// # What a record is indexed by
//
//	due     State.Due != 0                  (priority, due, ref)
//	staged  State.Phase == PhaseStaged      (State.Queue, priority, State.Run.Due, ref)
//	live    State.Run.Live                  run id → ref
//
// Writing a record replaces every index entry of its earlier version: callers never pass old due times.
// Deleting it removes them. Finished runs are kept beside the records, under their job's name, and outlive
// it.
//
// Package codec encodes records. Package storetest is the conformance suite; a store that passes it keeps
// this contract.
package store
