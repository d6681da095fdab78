package store

import "context"

// Asked is the refs to read in one partition.
type Asked struct {
	Shard Shard
	Refs  []Ref
}

// Reader is a [Store] that can read records of several partitions at about the cost of one read. It is
// optional: a local store reads as fast one after the other.
type Reader interface {
	// ReadAll returns for each what its Shard.Read would. The shards are of this store.
	ReadAll(ctx context.Context, asked []Asked) ([][]Record, error)
}
