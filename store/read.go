package store

import "context"

// Asked is the records of one partition that are asked for.
type Asked struct {
	Shard Shard
	Refs  []Ref
}

// Reader is a [Store] that can read records of several partitions at about the cost of one read. Stores need not: those that are
// near read as fast one after the other.
type Reader interface {
	// ReadAll returns for each what its Shard.Read would. The shards are of this store.
	ReadAll(ctx context.Context, asked []Asked) ([][]Record, error)
}
