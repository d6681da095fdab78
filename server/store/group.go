package store

import "context"

// Write is a partition's part of a group of batches.
type Write struct {
	Shard Shard
	Batch *Batch
}

// Grouper is a [Store] that can make batches of several partitions durable together, at about the cost of
// one. It is optional: without it the engine applies each batch by itself.
type Grouper interface {
	// ApplyGroup makes all batches durable in one atomic step, if the terms of all shards are in force at
	// that moment; otherwise none of them. The shards are of this store, each is in writes once, and counts
	// as being in its Apply meanwhile. [OutcomeOf] the error holds for every batch. As with Apply, ctx bounds
	// only the wait to begin.
	ApplyGroup(ctx context.Context, writes []Write) error
}

// Submitter is a [Grouper] with a committer of its own, to which a group can be handed without waiting for
// it. It is optional: for other stores the engine has a goroutine that waits in ApplyGroup.
type Submitter interface {
	// Submit is ApplyGroup for a caller that does not wait: done is called exactly once, with the outcome,
	// when nothing of the group is on its way any more. It may be called before Submit returns, and on a
	// goroutine of the store, so it must neither block nor call the store. Until then writes and batches
	// must not change, and the shards count as being in their Apply. Submit waits only while the store has
	// no room for one more group. Close waits for what was submitted; later the outcome is ErrClosed.
	Submit(writes []Write, done func(error))
}

// Gatherer is a [Store] that can read the metadata records of many partitions at about the cost of one read.
// It is optional.
type Gatherer interface {
	// Gather returns all metadata records of a kind that the partitions hold, in the order of partitions,
	// which lists each once; those of one partition are in key order. What it returns of a partition is what
	// Shard.MetaRecords would have returned at some time between the call and its end, page by page.
	Gather(ctx context.Context, kind byte, partitions []int) ([][]MetaRecord, error)
}
