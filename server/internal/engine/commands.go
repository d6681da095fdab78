package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// serveCommand makes a change once, or never; see [message.Command].
func serveCommand(ctx context.Context, p *partitionRunner, m message.Command) (before bool, err error) {
	once, err := onceOf(&m)
	if err != nil {
		return false, err
	}
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

// onceOf returns how a command is remembered.
func onceOf(m *message.Command) (partition.Once, error) {
	once := partition.Once{Request: m.Request, KeepFor: m.KeepFor}
	if n := len(m.Request); n == 0 || n > message.MaxRequest {
		return once, carillon.Errorf(carillon.InvalidArgument, "request", "it has %d bytes, not 1 to %d", n,
			message.MaxRequest)
	}
	if m.KeepFor < 0 || m.KeepFor > message.MaxKeepFor {
		return once, carillon.Errorf(carillon.InvalidArgument, "keep_for", "%v is not between 0 and %v", m.KeepFor,
			message.MaxKeepFor)
	}
	return once, nil
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
				before, err := p.m.Commands.Refuse(now, once, m.Key, m.Refusal)
				if by := audit.From(ctx).OfCommand(&m); by != nil && err == nil && !before {
					p.m.Audit.Add(now, by.Entry())
				}
				return before, err
			})
	}
	if err := p.e.quotas.mayChange(ctx, m.Key); err != nil {
		return false, err
	}
	c, err := p.e.changeOf(ctx, m, once)
	if err != nil {
		return false, err
	}
	if c.put.Job != nil {
		if _, err := p.e.dependencies.linkOne(ctx, &c.put); err != nil {
			return false, err
		}
	}
	to := p.e.partitions.of(m.Key)
	before, err = withRoom(ctx, p.e.quotas, func() (bool, error) {
		return inRound(ctx, to, c.call(), func(p *partitionRunner, now int64) (bool, error) {
			before, err := c.make(p, now)
			if err == nil && !before {
				record(p, audit.From(ctx).OfCommand(&m), now)
			}
			return before, err
		})
	})
	if err == nil && !before && c.put.Job != nil {
		p.e.scheduled(1)
	}
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

// change is what a command does to its job, in a round.
type change struct {
	message.Command
	once  partition.Once
	put   message.PutRequest // without a Job: it is no put
	trace delivery.Trace
	taken int64 // of one in a group: until when what it took of the rate is of use; 0: nothing was taken
}

// changeOf checks what can be checked before the round.
func (j *jobs) changeOf(ctx context.Context, m message.Command, once partition.Once) (c change, err error) {
	c = change{Command: m, once: once, trace: traceOf(ctx)}
	if m.Job == nil {
		return c, nil
	}
	job := *m.Job
	job.Namespace, job.Name = m.Key.Namespace, m.Key.Name
	if err := j.room(); err != nil {
		return c, err
	}
	// A secret may come to this node's file later than a command that needs it, which would be refused for good.
	c.put, err = j.requestOf(ctx, job, carillon.PutOptions{IfAbsent: m.IfAbsent, IfGeneration: m.IfGeneration})
	c.put.At, c.put.Trace = seen(m.SeenAt), c.trace
	return c, err
}

// call is what the round needs for it.
func (c *change) call() call {
	if c.put.Job == nil && c.Trigger != nil {
		return triggerCall(c.Key, c.Trigger)
	}
	return editCall(c.Key)
}

// make makes it.
func (c *change) make(p *partitionRunner, now int64) (before bool, err error) {
	switch {
	case c.put.Job != nil:
		return p.m.Jobs.PutOnce(now, c.once, c.put)
	case c.Trigger != nil:
		return p.m.Jobs.TriggerOnce(now, c.once, c.Key, *c.Trigger, c.trace)
	}
	return p.m.Jobs.DeleteOnce(now, c.once, c.Key, c.IfGeneration)
}

// serveCommands makes several changes, each once, in one round. What cannot be done in it is left open, for
// whatever reason: given alone, the command is refused as it ought to be, or done.
func serveCommands(ctx context.Context, p *partitionRunner, m message.Commands) ([]message.Decision, error) {
	if n := len(m.Commands); n > message.MaxCommands {
		return nil, carillon.Errorf(carillon.InvalidArgument, "commands", "%d are more than %d", n,
			message.MaxCommands)
	}
	decided := make([]message.Decision, len(m.Commands))
	changes := make([]*change, len(m.Commands)) // nil: it is left open
	var all call
	for i := range m.Commands {
		c, err := p.e.groupChange(ctx, p, m.Commands[i])
		if err != nil {
			continue // it is asked for again, alone, and then told why
		}
		one := c.call()
		all.refs, all.pending = append(all.refs, one.refs...), all.pending || one.pending
		changes[i] = &c
	}
	if len(all.refs) == 0 {
		return decided, nil
	}
	by := audit.From(ctx)
	puts, err := inRound(ctx, p, all, func(p *partitionRunner, now int64) (puts int, err error) {
		for i, c := range changes {
			if c == nil {
				continue
			}
			before, err := c.make(p, now)
			switch {
			case err != nil:
			case before:
				decided[i] = message.Repeated
			default:
				record(p, by.OfCommand(&c.Command), now)
				decided[i] = message.Done
				if c.put.Job != nil {
					puts++
				}
			}
		}
		return puts, nil
	})
	if err != nil && unknown(err) {
		return nil, err
	}
	for i, c := range changes { // what was not made is asked for again, and counts then
		if c != nil && (err != nil || decided[i] == message.Open) {
			p.e.quotas.giveBack(c.Key.Namespace, 1, c.taken)
		}
	}
	if err != nil {
		return nil, err
	}
	p.e.scheduled(puts)
	return decided, nil
}

// errAlone is for commands that are not done with others.
var errAlone = errors.New("such a command is done alone")

// groupChange is changeOf for one of several commands.
func (j *jobs) groupChange(ctx context.Context, p *partitionRunner, m message.Command) (change, error) {
	once, err := onceOf(&m)
	if err != nil {
		return change{}, err
	}
	if m.Refusal != nil || m.Complete != nil || m.Job != nil && len(m.Job.DependsOn) > 0 {
		return change{}, errAlone
	}
	if err := checkKey(&m.Key); err != nil {
		return change{}, err
	}
	if j.partitions.of(m.Key) != p {
		return change{}, errAlone
	}
	taken, err := j.quotas.takeOne(ctx, m.Key)
	if err != nil {
		return change{}, err
	}
	c, err := change{}, errAlone // to ask for calendars takes its time, which the others need not wait for
	if m.Job == nil || j.knowsCalendars(m.Key.Namespace, m.Job.Calendars) == nil {
		c, err = j.changeOf(ctx, m, once)
	}
	if err != nil {
		j.quotas.giveBack(m.Key.Namespace, 1, taken) // it is asked for again, and counts then
	}
	c.taken = taken
	return c, err
}

func serveForgetCommands(ctx context.Context, p *partitionRunner, m message.ForgetCommands) (any, error) {
	return inRound(ctx, p, call{}, func(p *partitionRunner, _ int64) (struct{}, error) {
		p.m.Commands.Forget(m.Commands)
		return struct{}{}, nil
	})
}
