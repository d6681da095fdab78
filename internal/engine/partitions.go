package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
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

// part returns a partition of this store by number.
func (e *Engine) part(number int) (*partitionRunner, error) {
	if number < 0 || number >= len(e.parts) {
		return nil, carillon.Errorf(carillon.InvalidArgument, "partition", "%d is not one of the store's partitions, 0 to %d", number, len(e.parts)-1)
	}
	return e.parts[number], nil
}

// Ask implements [Partitions].
func (e *Engine) Ask(ctx context.Context, number int, m Message) (any, error) {
	p, err := e.part(number)
	if err != nil {
		return nil, err
	}
	return m.serve(ctx, e, p)
}

// remote reports whether a partition must be reached through the peers.
func (e *Engine) remote(p *partitionRunner) bool { return e.cfg.Peers != nil && !p.own.holds() }

// elsewhere reports whether nothing was done because this node does not own the partition, or has lost it.
func elsewhere(err error) bool {
	return (errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotTaken)) && !unknown(err)
}

// across asks a partition, on whichever node it is.
func across[R any](ctx context.Context, e *Engine, p *partitionRunner, m Query[R]) (R, error) {
	if !e.remote(p) {
		reply, err := Send(ctx, e, p.number, m)
		if e.cfg.Peers == nil || !elsewhere(err) {
			return reply, err
		}
	}
	return Send(ctx, e.cfg.Peers, p.number, m)
}

// rest lets the peers finish an operation on many items, of which n are done, if the partition has been
// handed over meanwhile. If none is done, the caller finds the owner itself.
func (e *Engine) rest(ctx context.Context, n int, err error, p *partitionRunner, m Query[int]) (int, error) {
	if e.cfg.Peers != nil && n > 0 && elsewhere(err) {
		var more int
		more, err = Send(ctx, e.cfg.Peers, p.number, m)
		n += more
	}
	return n, partly(err, n > 0)
}
