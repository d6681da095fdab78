package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// serveCommand makes a change once, or never; see [message.Command].
func serveCommand(ctx context.Context, p *partitionRunner, m message.Command) (before bool, err error) {
	if n := len(m.Request); n == 0 || n > message.MaxRequest {
		return false, carillon.Errorf(carillon.InvalidArgument, "request", "it has %d bytes, not 1 to %d", n,
			message.MaxRequest)
	}
	if m.KeepFor < 0 || m.KeepFor > message.MaxKeepFor {
		return false, carillon.Errorf(carillon.InvalidArgument, "keep_for", "%v is not between 0 and %v", m.KeepFor,
			message.MaxKeepFor)
	}
	once := partition.Once{Request: m.Request, KeepFor: m.KeepFor}
	if m.Refusal == nil && m.Job == nil && m.Trigger == nil && m.Complete != nil {
		before, err = p.e.complete(ctx, m.Key.Namespace, *m.Complete, once)
		return unlessDone(ctx, err, before, p, func(p *partitionRunner, now int64) (bool, error) {
			return p.m.Commands.CompletedBefore(now, once, m.Key.Namespace)
		})
	}
	if err := checkKey(&m.Key); err != nil {
		return false, err
	}
	before, err = serveChange(ctx, p, m, once)
	return unlessDone(ctx, err, before, p.e.partitions.of(m.Key),
		func(p *partitionRunner, now int64) (bool, error) {
			return p.m.Commands.DoneBefore(now, once, m.Key)
		})
}

// unlessDone returns what came of a command, but that it was done before if memory says so: what would refuse
// it today was not there then. So a message that comes again is none that cannot be done. Memory is asked
// only after a refusal, for which what the command is about need not be readable, or there.
func unlessDone(ctx context.Context, err error, before bool, of *partitionRunner,
	done func(*partitionRunner, int64) (bool, error)) (bool, error) {
	e, certain := errors.AsType[*carillon.Error](err)
	if err == nil || certain && e.Unknown || errors.Is(err, message.ErrNotTaken) ||
		errors.Is(err, message.ErrNotOwner) || ctx.Err() != nil {
		return before, err
	}
	before, asking := inRound(ctx, of, call{}, done)
	if before {
		return true, nil
	}
	return false, cmp.Or(asking, err)
}

// serveChange makes the change of a command that is about a job.
func serveChange(ctx context.Context, p *partitionRunner, m message.Command,
	once partition.Once) (before bool, err error) {
	if m.Refusal != nil {
		return inRound(ctx, p.e.partitions.of(m.Key), editCall(m.Key),
			func(p *partitionRunner, now int64) (bool, error) {
				return p.m.Commands.Refuse(now, once, m.Key, m.Refusal)
			})
	}
	if m.Job != nil {
		return p.e.putOnce(ctx, m, once)
	}
	c := editCall(m.Key)
	if m.Trigger != nil {
		c = triggerCall(m.Key, m.Trigger)
	}
	trace := traceOf(ctx)
	to := p.e.partitions.of(m.Key)
	before, err = inRound(ctx, to, c, func(p *partitionRunner, now int64) (bool, error) {
		if m.Trigger != nil {
			return p.m.Jobs.TriggerOnce(now, once, m.Key, *m.Trigger, trace)
		}
		return p.m.Jobs.DeleteOnce(now, once, m.Key, m.IfGeneration)
	})
	return before, certainly(ctx, to, err)
}

// certainly is [partitionRunner.certain] for what came of a command, which may be no refusal.
func certainly(ctx context.Context, p *partitionRunner, err error) error {
	switch carillon.KindOf(err) {
	case carillon.NotFound, carillon.AlreadyExists, carillon.FailedPrecondition:
		return p.certain(ctx, err)
	}
	return err
}

// putOnce puts a job for a command.
func (j *jobs) putOnce(ctx context.Context, m message.Command, once partition.Once) (before bool, err error) {
	job := *m.Job
	job.Namespace, job.Name = m.Key.Namespace, m.Key.Name
	if err := j.room(); err != nil {
		return false, err
	}
	req, err := j.request(ctx, job, carillon.PutOptions{IfAbsent: m.IfAbsent,
		IfGeneration: m.IfGeneration})
	if err != nil {
		return false, err
	}
	if _, err := j.dependencies.linkOne(ctx, &req); err != nil {
		return false, err
	}
	req.At, req.Trace = seen(m.SeenAt), traceOf(ctx)
	to := j.partitions.of(m.Key)
	before, err = inRound(ctx, to, editCall(m.Key),
		func(p *partitionRunner, now int64) (bool, error) { return p.m.Jobs.PutOnce(now, once, req) })
	if err == nil && !before {
		j.scheduled(1)
	}
	return before, certainly(ctx, to, err)
}

func serveForgetCommands(ctx context.Context, p *partitionRunner, m message.ForgetCommands) (any, error) {
	return inRound(ctx, p, call{}, func(p *partitionRunner, _ int64) (struct{}, error) {
		p.m.Commands.Forget(m.Commands)
		return struct{}{}, nil
	})
}
