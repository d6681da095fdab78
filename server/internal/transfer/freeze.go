package transfer

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// Frozen is a store whose partitions are all claimed, for who changes what is in it while no node may.
type Frozen struct{ f *frozen }

// Freeze claims all partitions of a store on which no node lives. The context that it returns ends when they
// are lost.
func Freeze(ctx context.Context, s store.Store) (*Frozen, context.Context, error) {
	f, work, err := freeze(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return &Frozen{f}, work, nil
}

// Term returns the term of a partition.
func (f *Frozen) Term(partition int) store.Term { return f.f.held[partition].Term }

// Thaw releases the partitions.
func (f *Frozen) Thaw(ctx context.Context) error { return f.f.thaw(ctx) }

// Nobody is an error if a node lives on a store; it names all of them.
func Nobody(ctx context.Context, s store.Store) error { return nobody(ctx, s.Leaser()) }
