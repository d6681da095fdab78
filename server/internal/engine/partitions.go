package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

var _ message.Partitions = (*Engine)(nil)

// partitions finds the store's partitions: those of this node, and through the peers those of other nodes. It
// also reads what the store holds of them, which needs no owner.
type partitions struct {
	parts     []*partitionRunner // by number
	shards    []store.Shard      // by number: without a term, for what the store holds of a partition
	store     store.Store
	sealer    Encryption         // nil: nothing is encrypted
	peers     message.Partitions // nil if the node is alone
	macKey    []byte
	now       func() int64  // the node's clock, UTC ns
	settings  time.Duration // how often those in partitions of other nodes are read
	log       *slog.Logger
	calendars calendarFinder
	life      context.Context // ends when the engine stops
	signers   sync.Pool       // of *message.Signer, for parsing tokens
}

// of returns the partition of a job.
func (ps *partitions) of(k carillon.Key) *partitionRunner {
	return ps.parts[store.PartitionOf(k, len(ps.parts))]
}

// ofNamespace returns the partition that keeps the settings of a namespace.
func (ps *partitions) ofNamespace(namespace string) *partitionRunner {
	return ps.of(carillon.Key{Namespace: namespace})
}

// part returns a partition of this store by number.
func (ps *partitions) part(number int) (*partitionRunner, error) {
	if number < 0 || number >= len(ps.parts) {
		return nil, carillon.Errorf(carillon.InvalidArgument, "partition",
			"%d is not one of the store's partitions, 0 to %d", number, len(ps.parts)-1)
	}
	return ps.parts[number], nil
}

// token parses a token and finds its partition; nil if there is none.
func (ps *partitions) token(text string) (message.Token, *partitionRunner) {
	s, ok := ps.signers.Get().(*message.Signer)
	if !ok {
		s = message.NewSigner(ps.macKey)
	}
	tok, err := s.Parse(text)
	ps.signers.Put(s)
	if err != nil {
		return tok, nil
	}
	tok.Run = tok.Run.In(len(ps.parts)) // the store may have had another number of partitions
	return tok, ps.parts[tok.Run.Partition]
}

// Ask implements [message.Partitions].
func (ps *partitions) Ask(ctx context.Context, number int, m message.Message) (any, error) {
	p, err := ps.part(number)
	if err != nil {
		return nil, err
	}
	return serve(ctx, p, m)
}

// remote reports whether a partition must be reached through the peers.
func (ps *partitions) remote(p *partitionRunner) bool { return ps.peers != nil && !p.own.holds() }

// elsewhere reports whether nothing was done because this node does not own the partition, or has lost it.
func elsewhere(err error) bool {
	return (errors.Is(err, message.ErrNotOwner) || errors.Is(err, message.ErrNotTaken)) && !unknown(err)
}

// across asks a partition, on whichever node it is.
func across[R any](ctx context.Context, ps *partitions, p *partitionRunner, m message.Query[R]) (R, error) {
	if !ps.remote(p) {
		reply, err := message.Send(ctx, ps, p.number, m)
		if ps.peers == nil || !elsewhere(err) {
			return reply, err
		}
	}
	return message.Send(ctx, ps.peers, p.number, m)
}

// finish lets the peers finish an operation on many items, of which n are done, if the partition has been
// handed over meanwhile. If none is done, the caller finds the owner itself.
func (ps *partitions) finish(ctx context.Context, n int, err error, p *partitionRunner,
	m message.Query[int]) (int, error) {
	if ps.peers != nil && n > 0 && elsewhere(err) {
		var more int
		more, err = message.Send(ctx, ps.peers, p.number, m)
		n += more
	}
	return n, partly(err, n > 0)
}
