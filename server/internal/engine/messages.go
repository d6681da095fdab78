package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// serve does what a message asks of a partition, on the node that owns it. The reply may count although err
// is not nil: it is what was done before.
func serve(ctx context.Context, p *partitionRunner, m message.Message) (reply any, err error) {
	switch m := m.(type) {
	case message.RegisterDependencies:
		return serveRegisterDependencies(ctx, p, m)
	case message.DeliverNotice:
		return serveJob(ctx, p, m.Notice.Waiting(),
			func(of *partition.Machine) message.Answer { return of.Jobs.Release(m.Notice) })
	case message.StillWaits:
		return serveJob(ctx, p, m.Dependency.Waiting(),
			func(of *partition.Machine) bool { return of.Records.WaitsFor(m.Dependency) })
	case message.KeepsTimes:
		return serveJob(ctx, p, m.Job.Key(), func(of *partition.Machine) bool { return of.Jobs.Keeps(m.Job) })
	case message.ApplyShare:
		return serveApplyShare(ctx, p, m)
	case message.DeleteByPrefix:
		return serveDeleteByPrefix(ctx, p, m)
	case message.RedriveDead:
		return serveRedriveDead(ctx, p, m)
	case message.PauseQueue:
		return servePauseQueue(ctx, p, m)
	case message.ChangeKey:
		return serveChangeKey(ctx, p, m)
	case message.AskRoom:
		return serveAskRoom(ctx, p, m)
	case message.CountUsage:
		return serveCountUsage(ctx, p, m)
	case message.TakeChanges:
		return serveTakeChanges(ctx, p, m)
	case message.PurgeQueue:
		return purge(ctx, p, m)
	case message.PutJob:
		return p.e.put(ctx, m.Job, m.Options, seen(m.SeenAt))
	case message.PutJobs:
		return p.e.putAll(ctx, m.Jobs, seen(m.SeenAt))
	case message.PatchJob:
		return p.e.patch(ctx, m.Key, m.Patch, seen(m.SeenAt))
	case message.Command:
		return serveCommand(ctx, p, m)
	case message.Commands:
		return serveCommands(ctx, p, m)
	case message.ForgetCommands:
		return serveForgetCommands(ctx, p, m)
	case message.RelayReports:
		return serveRelayReports(ctx, p, m)
	case message.RequestPermits:
		return serveRequestPermits(ctx, p, m)
	case message.DeliverPermits:
		return serveDeliverPermits(p, m)
	case message.LimitStands:
		return serveLimitStands(ctx, p, m)
	case message.RecordEvents:
		return serveRecordEvents(ctx, p, m)
	case message.RecordAudit:
		return serveRecordAudit(ctx, p, m)
	}
	return nil, carillon.Errorf(carillon.Internal, "", "%T is not served", m)
}

func serveRegisterDependencies(ctx context.Context, p *partitionRunner,
	m message.RegisterDependencies) (any, error) {
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

// serveJob serves a message to one job that cannot fail.
func serveJob[T any](ctx context.Context, p *partitionRunner, key carillon.Key,
	f func(of *partition.Machine) T) (any, error) {
	return inRound(ctx, p, jobCall(key), func(p *partitionRunner, _ int64) (T, error) { return f(p.m), nil })
}

func serveApplyShare(ctx context.Context, p *partitionRunner, m message.ApplyShare) (any, error) {
	var stored []carillon.PutResult
	if m.Share.Hold {
		return stored, serveHold(ctx, p, m.Share)
	}
	if _, err := storeShare(ctx, p, m.Share, func(puts []carillon.PutResult) { stored = puts }); err != nil {
		return nil, err
	}
	return stored, nil
}

func serveDeleteByPrefix(ctx context.Context, p *partitionRunner, m message.DeleteByPrefix) (any, error) {
	if err := checkPrefix(m.Namespace, m.Prefix); err != nil {
		return 0, err
	}
	n, err := deletePages(ctx, p, m.Namespace, m.Prefix)
	return p.e.finish(ctx, n, err, p, m)
}

func serveRedriveDead(ctx context.Context, p *partitionRunner, m message.RedriveDead) (any, error) {
	q, err := deadRuns(m.Namespace, m.Job)
	if err != nil {
		return 0, err
	}
	n, err := redrivePages(ctx, p, q)
	return p.e.finish(ctx, n, err, p, m)
}

func serveRecordEvents(ctx context.Context, p *partitionRunner, m message.RecordEvents) (any, error) {
	return inRound(ctx, p, call{}, func(p *partitionRunner, now int64) (uint64, error) {
		return p.m.Events.Watch(now, m.Again)
	})
}

// seen returns when a call was first seen, in UTC ns; 0 if that is not known.
func seen(at time.Time) int64 {
	if at.IsZero() || !carillon.Storable(at) {
		return 0
	}
	return at.UnixNano()
}
