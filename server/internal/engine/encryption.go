package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// Encryption is between the engine and the store: batches are encrypted on their way in, before anything that
// follows them (Config.Way) or the store has them, and records are decrypted on their way out. Package sealed
// has one. It is safe for concurrent use.
type Encryption interface {
	// Shard returns a partition whose reads are decrypted.
	Shard(below store.Shard) store.Shard
	// Admit is an error if what [store.SealMarks] finds in a shard of Shard says that a key is missing here. It
	// is called once for each term, before anything is written.
	Admit(shard store.Shard, marks []store.MetaRecord) error
	// Writes returns what the store is to have of a group whose shards are those of Shard. After a group that
	// was not applied there is another term.
	Writes(writes []store.Write) ([]store.Write, error)
	// Reader and Gatherer are those of the store, for shards of Shard, with what they read decrypted.
	Reader(below store.Reader) store.Reader
	Gatherer(below store.Gatherer) store.Gatherer
}

// shardOf returns a partition of the store, for reads in the clear.
func (ps *partitions) shardOf(number int, term store.Term) (store.Shard, error) {
	s, err := ps.store.Shard(number, term)
	if err != nil || ps.sealer == nil {
		return s, err
	}
	return ps.sealer.Shard(s), nil
}

// admit is an error if the partition has records that this node has no key for. It must not own it: a job
// whose data cannot be decrypted would not run, and a change of it would be lost to the other nodes.
func (ps *partitions) admit(ctx context.Context, shard store.Shard) error {
	marks, err := shard.MetaRecords(ctx, store.SealMarks)
	switch {
	case err != nil:
		return err
	case ps.sealer == nil:
		return store.CheckUnsealed(marks)
	}
	return ps.sealer.Admit(shard, marks)
}

func (ps *partitions) readerOf(r store.Reader) store.Reader {
	if ps.sealer == nil {
		return r
	}
	return ps.sealer.Reader(r)
}

func (ps *partitions) gathererOf(g store.Gatherer) store.Gatherer {
	if ps.sealer == nil {
		return g
	}
	return ps.sealer.Gatherer(g)
}

// stores returns a group as the store is to have it. After an error it has nothing of it.
func (ps *partitions) stores(writes []store.Write) ([]store.Write, error) {
	if ps.sealer == nil {
		return writes, nil
	}
	sealed, err := ps.sealer.Writes(writes)
	if err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}
	return sealed, nil
}
