package engine

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// ErrNotOwner says that this node does not own the partition that a call is for. It is within an Unavailable [carillon.Error] whose
// outcome is known: nothing was done, the owner may be asked.
var ErrNotOwner = errors.New("this node does not own the partition")

// ErrNotTaken says that the store has certainly not taken a change: this node has no term for the partition, the lease ran out before
// anything left, or what the call needs could not be read. It is within an Unavailable [carillon.Error] whose
// outcome is known: a later try may find another owner, or a term.
var ErrNotTaken = errors.New("the store did not take the change")

// Partitions is what partitions ask of each other, wherever they are. An [Engine] answers for those that this node owns and
// refuses the others with [ErrNotOwner]; a router finds the owner, and asks again while nothing has been done, until ctx ends.
// Errors are [carillon.Error]; one without Unknown says that what was asked for has certainly not been done. What reaches a
// partition after ctx has ended is not done. Each can be repeated without harm.
type Partitions interface {
	// Register notes that jobs wait for jobs of the partition; it says which of those exist.
	Register(ctx context.Context, p int, edges []partition.Dependency) (exist []bool, err error)
	// Release tells a waiting job of the partition of a success.
	Release(ctx context.Context, p int, l partition.Notice) (partition.Answer, error)
	// Waits reports whether a job of the partition still waits.
	Waits(ctx context.Context, p int, e partition.Dependency) (bool, error)
	// Keeps reports whether a put of the job would keep the times of the one that is there.
	Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error)
	// ApplyShare stores the partition's share of a decided batch. puts is nil if an earlier call has.
	ApplyShare(ctx context.Context, p int, s *partition.Share) (puts []carillon.PutResult, err error)
	// DeleteIn removes the partition's jobs by prefix.
	DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error)
	// RedriveIn tries the partition's dead runs again: of a job, or of the namespace if job is empty.
	RedriveIn(ctx context.Context, p int, namespace, job string) (int, error)
	// Relay takes what consumers have said of the partition's attempts to a node that no longer owns it.
	Relay(ctx context.Context, p int, s Reports) (RelayResult, error)
	// RequestPermits tells the partition what another has and wants of limits whose home it is. It returns how each stands for the
	// one that asks, which is durable; what is given later comes by DeliverPermits.
	RequestPermits(ctx context.Context, p int, from partition.Asker, asks []partition.PermitRequest) ([]partition.PermitGrant, error)
	// DeliverPermits tells the partition what the homes of limits have handed out to it. It is done when the partition has
	// taken note of it; nothing is durable by that.
	DeliverPermits(ctx context.Context, p int, grants []partition.PermitGrant) error
}

// Reports is what consumers have said of attempts of one partition.
type Reports struct {
	Reports     []partition.Report // From is nil
	Heartbeats  []carillon.Heartbeat
	Lost        []string // tokens of attempts whose worker said goodbye
	Undelivered []string // tokens of attempts that never left, or whose sidecar has gone
}

// RelayResult is what became of it, by token. What is in neither list need not be told.
type RelayResult struct {
	Accepted []string // durable
	Stale    []string // not in force: whoever runs it must stop
}

var _ Partitions = (*Engine)(nil)

// part is a partition of this store.
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
			var err error
			if exist[i], err = p.m.Register(now, edge); err != nil {
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
	if err := carillon.ValidatePrefix(namespace, prefix); err != nil {
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
