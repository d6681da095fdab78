package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/permit"
	"github.com/carillonhq/carillon/store"
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
// not carried out. Every request can be repeated without harm.
type Partitions interface {
	// Register records dependencies on jobs of the partition. It returns which of those jobs exist.
	Register(ctx context.Context, p int, edges []partition.Dependency) (exist []bool, err error)
	// Release delivers a completion notice to a waiting job of the partition.
	Release(ctx context.Context, p int, l partition.Notice) (partition.Answer, error)
	// Waits reports whether a job of the partition still waits for the dependency.
	Waits(ctx context.Context, p int, e partition.Dependency) (bool, error)
	// Keeps reports whether putting the job would keep the times of the existing job of that name.
	Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error)
	// ApplyShare stores the partition's share of a decided batch. puts is nil if an earlier call has stored
	// it.
	ApplyShare(ctx context.Context, p int, s *partition.Share) (puts []carillon.PutResult, err error)
	// DeleteIn removes the partition's jobs whose names have the prefix. It returns how many.
	DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error)
	// RedriveIn redrives the partition's dead runs of a job, or of the namespace if job is empty. It returns
	// how many.
	RedriveIn(ctx context.Context, p int, namespace, job string) (int, error)
	// Relay delivers what consumers reported about the partition's attempts to a node that no longer owns it.
	Relay(ctx context.Context, p int, s Reports) (RelayResult, error)
	// RequestPermits tells the home of some limits which permits another partition holds and wants. It
	// returns what that partition now has of each limit, which is durable. What the home grants later comes
	// by DeliverPermits.
	RequestPermits(ctx context.Context, p int, from permit.Asker, asks []permit.Request) ([]permit.Grant, error)
	// DeliverPermits tells the partition what the homes of limits have granted to it. It returns once the
	// partition has it in its mailbox; nothing is durable by then.
	DeliverPermits(ctx context.Context, p int, grants []permit.Grant) error
}

// Reports holds what consumers reported about attempts of one partition.
type Reports struct {
	Reports     []partition.Report // From is nil
	Heartbeats  []carillon.Heartbeat
	Lost        []string // tokens of attempts whose worker disconnected cleanly
	Undelivered []string // tokens of attempts that were never sent, or whose sidecar has disconnected
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

// Register implements [Partitions].
func (e *Engine) Register(ctx context.Context, number int, edges []partition.Dependency) ([]bool, error) {
	p, err := e.part(number)
	if err != nil {
		return nil, err
	}
	c := call{}
	for _, edge := range edges {
		c.refs = append(c.refs, store.Ref{Key: edge.Of})
	}
	return ask(ctx, p, c, func(p *partitionRunner, now int64) ([]bool, error) {
		exist := make([]bool, len(edges))
		for i, edge := range edges {
			exist[i] = p.m.Exists(edge.Of)
			if err := p.m.Dependencies.Register(now, edge); err != nil {
				return nil, inDependency(i, err)
			}
		}
		return exist, nil
	})
}

// Release implements [Partitions].
func (e *Engine) Release(ctx context.Context, number int, l partition.Notice) (partition.Answer, error) {
	p, err := e.part(number)
	if err != nil {
		return partition.Unreached, err
	}
	return ask(ctx, p, jobCall(l.Waiting()), func(p *partitionRunner, _ int64) (partition.Answer, error) { return p.m.Release(l), nil })
}

// Waits implements [Partitions].
func (e *Engine) Waits(ctx context.Context, number int, edge partition.Dependency) (bool, error) {
	p, err := e.part(number)
	if err != nil {
		return false, err
	}
	return ask(ctx, p, jobCall(edge.Waiting()), func(p *partitionRunner, _ int64) (bool, error) { return p.m.WaitsFor(edge), nil })
}

// Keeps implements [Partitions].
func (e *Engine) Keeps(ctx context.Context, number int, job *carillon.Job) (bool, error) {
	p, err := e.part(number)
	if err != nil {
		return false, err
	}
	return ask(ctx, p, jobCall(job.Key()), func(p *partitionRunner, _ int64) (bool, error) { return p.m.Keeps(job), nil })
}

// ApplyShare implements [Partitions].
func (e *Engine) ApplyShare(ctx context.Context, number int, s *partition.Share) ([]carillon.PutResult, error) {
	p, err := e.part(number)
	if err != nil {
		return nil, err
	}
	var stored []carillon.PutResult
	_, err = e.storeShare(ctx, p, s, func(puts []carillon.PutResult) { stored = puts })
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// DeleteIn implements [Partitions].
func (e *Engine) DeleteIn(ctx context.Context, number int, namespace, prefix string) (int, error) {
	p, err := e.part(number)
	if err != nil {
		return 0, err
	}
	if err := checkPrefix(namespace, prefix); err != nil {
		return 0, err
	}
	n, err := e.deletePages(ctx, p, namespace, prefix)
	return e.rest(n, err, func(ps Partitions) (int, error) { return ps.DeleteIn(ctx, number, namespace, prefix) })
}

// RedriveIn implements [Partitions].
func (e *Engine) RedriveIn(ctx context.Context, number int, namespace, job string) (int, error) {
	p, err := e.part(number)
	if err != nil {
		return 0, err
	}
	q, err := deadRuns(namespace, job)
	if err != nil {
		return 0, err
	}
	n, err := e.redrivePages(ctx, p, q)
	return e.rest(n, err, func(ps Partitions) (int, error) { return ps.RedriveIn(ctx, number, namespace, job) })
}
