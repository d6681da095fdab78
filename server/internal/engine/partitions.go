package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// ErrNotOwner says that this node does not own the partition that a call is for. It is wrapped in an
// Unavailable [carillon.Error] without Unknown: nothing was done, and the owner may be asked.
var ErrNotOwner = errors.New("this node does not own the partition")

// ErrNotTaken says that the store has certainly not taken a change: this node has no term for the partition,
// the lease ran out before anything was sent, or what the call needs could not be read. It is wrapped in an
// Unavailable [carillon.Error] without Unknown: a later try may find another owner, or a term.
var ErrNotTaken = errors.New("the store did not take the change")

// Partitions is what partitions ask of each other, on whichever node they are. An [Engine] answers for the
// partitions that it owns and refuses the others with [ErrNotOwner]. A router finds the owner, and retries
// until ctx ends as long as nothing has been done. Errors are [carillon.Error]; one without Unknown says that
// the request has certainly not been carried out. A request that reaches a partition after ctx has ended is
// not carried out.
type Partitions interface {
	// Ask sends a message to a partition. [Send] does so with the type of the reply.
	Ask(ctx context.Context, p int, m Message) (reply any, err error)
}

// RelayResult says what became of relayed reports, by token. A report in neither list needs no answer.
type RelayResult struct {
	Accepted []string // the report is durable
	Stale    []string // the attempt is not in force: whoever runs it must stop
}

var _ Partitions = (*Engine)(nil)

// partitions finds the store's partitions: those of this node, and through the peers those of other nodes. It
// also reads what the store holds of them, which needs no owner.
type partitions struct {
	parts   []*partitionRunner // by number
	store   store.Store
	peers   Partitions // nil if the node is alone
	macKey  []byte
	signers sync.Pool // of *partition.Signer, for parsing tokens
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
		return nil, carillon.Errorf(carillon.InvalidArgument, "partition", "%d is not one of the store's partitions, 0 to %d",
			number, len(ps.parts)-1)
	}
	return ps.parts[number], nil
}

// token parses a token and finds its partition; nil if there is none.
func (ps *partitions) token(text string) (partition.Token, *partitionRunner) {
	s, ok := ps.signers.Get().(*partition.Signer)
	if !ok {
		s = partition.NewSigner(ps.macKey)
	}
	tok, err := s.Parse(text)
	ps.signers.Put(s)
	if err != nil || int(tok.Run.Partition) >= len(ps.parts) {
		return tok, nil
	}
	return tok, ps.parts[tok.Run.Partition]
}

// Ask implements [Partitions].
func (ps *partitions) Ask(ctx context.Context, number int, m Message) (any, error) {
	p, err := ps.part(number)
	if err != nil {
		return nil, err
	}
	return m.serve(ctx, p)
}

// remote reports whether a partition must be reached through the peers.
func (ps *partitions) remote(p *partitionRunner) bool { return ps.peers != nil && !p.own.holds() }

// elsewhere reports whether nothing was done because this node does not own the partition, or has lost it.
func elsewhere(err error) bool {
	return (errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotTaken)) && !unknown(err)
}

// across asks a partition, on whichever node it is.
func across[R any](ctx context.Context, ps *partitions, p *partitionRunner, m Query[R]) (R, error) {
	if !ps.remote(p) {
		reply, err := Send(ctx, ps, p.number, m)
		if ps.peers == nil || !elsewhere(err) {
			return reply, err
		}
	}
	return Send(ctx, ps.peers, p.number, m)
}

// finish lets the peers finish an operation on many items, of which n are done, if the partition has been
// handed over meanwhile. If none is done, the caller finds the owner itself.
func (ps *partitions) finish(ctx context.Context, n int, err error, p *partitionRunner, m Query[int]) (int, error) {
	if ps.peers != nil && n > 0 && elsewhere(err) {
		var more int
		more, err = Send(ctx, ps.peers, p.number, m)
		n += more
	}
	return n, partly(err, n > 0)
}
