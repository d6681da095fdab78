package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
)

// Message is what a partition is asked by another partition, or by another node on behalf of a caller. The
// types of this file are all there are. To add one: write its type here, its form on the wire in package peer
// (messages.go), and its rpc in the proto.
//
// A message can be repeated without harm, unless it is [Once].
type Message interface {
	// serve does what is asked, on the node that owns the partition. The reply may count although err is not
	// nil: it is what was done before.
	serve(ctx context.Context, p *partitionRunner) (reply any, err error)
}

// Query is a message whose reply is an R.
type Query[R any] interface {
	Message
	replies(R)
}

// Once is a message that must not be carried out twice.
type Once interface {
	Message
	once()
}

// Send sends a message to a partition and returns the reply.
func Send[R any](ctx context.Context, to Partitions, p int, m Query[R]) (R, error) {
	reply, err := to.Ask(ctx, p, m)
	r, ok := reply.(R)
	if !ok && err == nil {
		err = carillon.Errorf(carillon.Internal, "", "the reply to %T is %T", m, reply)
	}
	return r, err
}

// RegisterDependencies records dependencies on jobs of the partition. The reply says which of those jobs
// exist.
type RegisterDependencies struct{ Dependencies []partition.Dependency }

// DeliverNotice delivers a completion notice to a waiting job of the partition.
type DeliverNotice struct{ Notice partition.Notice }

// StillWaits asks whether a job of the partition still waits for the dependency.
type StillWaits struct{ Dependency partition.Dependency }

// KeepsTimes asks whether putting the job would keep the times of the existing job of that name.
type KeepsTimes struct{ Job *carillon.Job }

// ApplyShare stores the partition's share of a decided batch. The reply is nil if an earlier message has
// stored it. A share without a batch only asks for the partition's term, which is the error's.
type ApplyShare struct{ Share *partition.Share }

// DeleteByPrefix removes the partition's jobs whose names have the prefix. The reply is how many.
type DeleteByPrefix struct{ Namespace, Prefix string }

// RedriveDead redrives the partition's dead runs of a job, or of the namespace if Job is empty. The reply is
// how many.
type RedriveDead struct{ Namespace, Job string }

// RelayReports delivers what consumers reported about the partition's attempts to a node that no longer owns
// it.
type RelayReports struct {
	Reports     []delivery.Report // From is nil
	Heartbeats  []carillon.Heartbeat
	Lost        []string // tokens of attempts whose worker disconnected cleanly
	Undelivered []string // tokens of attempts that were never sent, or whose sidecar has disconnected
}

// RequestPermits tells the home of some limits which permits another partition holds and wants. The reply is
// what that partition now has of each limit, which is durable. What the home grants later comes by
// [DeliverPermits].
type RequestPermits struct {
	From     permit.Asker
	Requests []permit.Request
}

// DeliverPermits tells the partition what the homes of limits have granted to it. It is answered once the
// partition has it in its mailbox; nothing is durable by then.
type DeliverPermits struct{ Grants []permit.Grant }

// PutJob stores a job of the partition for a caller of another node; see [carillon.Jobs].
type PutJob struct {
	Job     carillon.Job
	Options carillon.PutOptions
	SeenAt  time.Time // when the other node saw the call: relative times count from then
}

// PutJobs stores a batch for a caller of another node. The partition is that of the first job, and
// coordinates the batch.
type PutJobs struct {
	Jobs   []carillon.Job
	SeenAt time.Time // see [PutJob]
}

// PatchJob changes a job of the partition for a caller of another node.
type PatchJob struct {
	Key    carillon.Key
	Patch  carillon.Patch
	SeenAt time.Time // see [PutJob]
}

func (RegisterDependencies) replies([]bool)     {}
func (DeliverNotice) replies(partition.Answer)  {}
func (StillWaits) replies(bool)                 {}
func (KeepsTimes) replies(bool)                 {}
func (ApplyShare) replies([]carillon.PutResult) {}
func (DeleteByPrefix) replies(int)              {}
func (RedriveDead) replies(int)                 {}
func (RelayReports) replies(RelayResult)        {}
func (RequestPermits) replies([]permit.Grant)   {}
func (DeliverPermits) replies(struct{})         {}
func (PutJob) replies(carillon.PutResult)       {}
func (PutJobs) replies([]carillon.PutResult)    {}
func (PatchJob) replies(carillon.PutResult)     {}

func (PutJob) once()   {}
func (PutJobs) once()  {}
func (PatchJob) once() {}

func (m RegisterDependencies) serve(ctx context.Context, p *partitionRunner) (any, error) {
	c := call{}
	for _, d := range m.Dependencies {
		c.refs = append(c.refs, store.Ref{Key: d.Of})
	}
	return inRound(ctx, p, c, func(p *partitionRunner, now int64) ([]bool, error) {
		exist := make([]bool, len(m.Dependencies))
		for i, d := range m.Dependencies {
			exist[i] = p.m.Records.Exists(d.Of)
			if err := p.m.Dependencies.Register(now, d); err != nil {
				return nil, inDependency(i, err)
			}
		}
		return exist, nil
	})
}

func (m DeliverNotice) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return inRound(ctx, p, jobCall(m.Notice.Waiting()), func(p *partitionRunner, _ int64) (partition.Answer, error) {
		return p.m.Jobs.Release(m.Notice), nil
	})
}

func (m StillWaits) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return inRound(ctx, p, jobCall(m.Dependency.Waiting()), func(p *partitionRunner, _ int64) (bool, error) {
		return p.m.Records.WaitsFor(m.Dependency), nil
	})
}

func (m KeepsTimes) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return inRound(ctx, p, jobCall(m.Job.Key()), func(p *partitionRunner, _ int64) (bool, error) {
		return p.m.Jobs.Keeps(m.Job), nil
	})
}

func (m ApplyShare) serve(ctx context.Context, p *partitionRunner) (any, error) {
	var stored []carillon.PutResult
	if _, err := storeShare(ctx, p, m.Share, func(puts []carillon.PutResult) { stored = puts }); err != nil {
		return nil, err
	}
	return stored, nil
}

func (m DeleteByPrefix) serve(ctx context.Context, p *partitionRunner) (any, error) {
	if err := checkPrefix(m.Namespace, m.Prefix); err != nil {
		return 0, err
	}
	n, err := deletePages(ctx, p, m.Namespace, m.Prefix)
	return p.e.finish(ctx, n, err, p, m)
}

func (m RedriveDead) serve(ctx context.Context, p *partitionRunner) (any, error) {
	q, err := deadRuns(m.Namespace, m.Job)
	if err != nil {
		return 0, err
	}
	n, err := redrivePages(ctx, p, q)
	return p.e.finish(ctx, n, err, p, m)
}

func (m PutJob) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return p.e.put(ctx, m.Job, m.Options, seen(m.SeenAt))
}

func (m PutJobs) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return p.e.putAll(ctx, m.Jobs, seen(m.SeenAt))
}

func (m PatchJob) serve(ctx context.Context, p *partitionRunner) (any, error) {
	return p.e.patch(ctx, m.Key, m.Patch, seen(m.SeenAt))
}

// seen returns when a call was first seen, in UTC ns; 0 if that is not known.
func seen(at time.Time) int64 {
	if at.IsZero() || !carillon.Storable(at) {
		return 0
	}
	return at.UnixNano()
}
