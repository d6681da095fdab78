package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/server/store"
)

// Feed brings commands from elsewhere: it begins when the node has started, and the function that it returns
// ends it, when the node leaves. From then on it brings no more; what is under way may end until ctx is done.
// A program links only the feeds that it names.
type Feed func(to Intake) (end func(ctx context.Context))

// Intake is a node as its feeds see it.
type Intake struct{ node *Node }

// startFeeds starts the node's feeds. The returned function ends them, once.
func startFeeds(n *Node) (end func(ctx context.Context)) {
	var ends []func(context.Context)
	for _, f := range n.config.Feeds {
		ends = append(ends, f(Intake{n}))
	}
	var once sync.Once
	return func(ctx context.Context) {
		once.Do(func() {
			var ending sync.WaitGroup
			for _, end := range ends {
				ending.Go(func() { end(ctx) })
			}
			ending.Wait()
		})
	}
}

// Log returns the node's log.
func (i Intake) Log() *slog.Logger { return i.node.config.Log }

// Metrics returns the node's metrics.
func (i Intake) Metrics() *telemetry.Metrics { return i.node.metrics }

// Do has a command done, or refused for good, wherever its partition is, and returns once that is durable,
// and whether it was done before. Data that is large goes to the payload store, as that of other puts does.
// What exceeds a bound is refused here, unless it was done before: a message that is too large for another
// node has no certain answer.
func (i Intake) Do(ctx context.Context, c message.Command) (before bool, err error) {
	partitions := i.node.store.Meta().Partitions
	p := store.PartitionOf(c.Key, partitions)
	if err := i.prepare(ctx, &c); err != nil {
		before, asking := i.remembered(ctx, p, &c)
		if before || asking != nil {
			return before, asking
		}
		return false, err
	}
	if c.Complete != nil {
		if err := c.Complete.Validate(); err != nil {
			return false, err
		}
		var ok bool
		if p, ok = message.PartitionOfToken(c.Complete.Token, partitions); !ok {
			return false, carillon.Errorf(carillon.InvalidArgument, "token", "this is not a token of this store")
		}
	}
	ctx, ended := i.node.trail.commands(ctx)
	before, err = message.Send(ctx, i.node.calls, p, c)
	if err == nil && !before {
		ended(&c)
	}
	return before, err
}

// PartitionOf returns the partition of a job.
func (i Intake) PartitionOf(k carillon.Key) int {
	return store.PartitionOf(k, i.node.store.Meta().Partitions)
}

// DoAll has commands of one partition done together, and returns once what is done is durable. There are at
// most [message.MaxCommands]. What is left open is for Do: it is not done, or that is not known. An error
// says why that is so of all that were tried, unless their node is of a version that does commands alone
// only. What is [message.Apart] was not tried, and is for Do as well.
func (i Intake) DoAll(ctx context.Context, p int, all []message.Command) ([]message.Decision, error) {
	decided := make([]message.Decision, len(all))
	var places []int
	var some []message.Command
	edge := i.node.edge()
	for n, c := range all {
		if c.Job != nil && edge.Apart(&c.Job.Data) ||
			c.Trigger != nil && c.Trigger.Data != nil && edge.Apart(c.Trigger.Data) {
			decided[n] = message.Apart // it takes its time, which the others need not wait for
			continue
		}
		places, some = append(places, n), append(some, c)
	}
	if len(some) == 0 {
		return decided, nil
	}
	ctx, ended := i.node.trail.commands(ctx)
	these, err := message.Send(ctx, i.node.calls, p, message.Commands{Commands: some})
	switch {
	case errors.Is(err, cluster.ErrOlder):
		return decided, nil
	case err != nil:
		return decided, err
	}
	for n, d := range these {
		decided[places[n]] = d
		if d == message.Done {
			ended(&some[n])
		}
	}
	return decided, nil
}

// prepare checks the job or the trigger of a command, and keeps its data apart if that is large.
func (i Intake) prepare(ctx context.Context, c *message.Command) error {
	limits := i.node.config.Limits
	if c.Job != nil {
		job := *c.Job
		job.Namespace, job.Name = c.Key.Namespace, c.Key.Name
		if err := job.Validate(limits); err != nil {
			return err
		}
		if err := i.node.edge().Keep(ctx, &job); err != nil {
			return err
		}
		c.Job = &job
	}
	if c.Trigger != nil {
		o := *c.Trigger
		if err := o.Validate(limits); err != nil {
			return err
		}
		if err := i.node.edge().KeepTrigger(ctx, i.node.calls, c.Key, &o); err != nil {
			return err
		}
		c.Trigger = &o
	}
	return nil
}

// remembered reports whether a command was done before. It asks with a delete at a generation that no job
// has: that is answered as done if the request is remembered, and refused otherwise.
func (i Intake) remembered(ctx context.Context, p int, c *message.Command) (bool, error) {
	before, err := message.Send(ctx, i.node.calls, p,
		message.Command{Request: c.Request, Key: c.Key, IfGeneration: math.MaxUint64})
	switch carillon.KindOf(err) {
	case carillon.NotFound, carillon.FailedPrecondition, carillon.InvalidArgument:
		return false, nil
	}
	return before, err
}

// Ingests has f called with the ingests of the brokers' file, at once and after each change of the file, one
// call at a time. After the feed has ended it does nothing: the node looks at the file a little longer.
func (i Intake) Ingests(f func(map[string]ingest.Config)) { i.node.brokers.followIngests(f) }

// ShowIngests has the node say how ingests stand: own returns that, with the node of a name as the only
// reader. Without it there are none.
func (i Intake) ShowIngests(own func(node string) []carillon.Ingest) {
	i.node.queues.ingests.Store(&own)
}

// Brokers returns which kinds of brokers the program knows.
func (i Intake) Brokers() (sources map[string]broker.NewSource, clients map[string]broker.New) {
	return i.node.config.Targets.Brokers.Sources, i.node.config.Targets.Brokers.Clients
}

// Forget has commands forgotten that will not come again.
func (i Intake) Forget(ctx context.Context, ids []message.CommandID) error {
	by := make([][]message.CommandID, i.node.store.Meta().Partitions)
	for _, id := range ids {
		p := store.PartitionOf(id.Key, len(by))
		by[p] = append(by[p], id)
	}
	for p, ids := range by {
		if len(ids) == 0 {
			continue
		}
		if _, err := message.Send(ctx, i.node.calls, p, message.ForgetCommands{Commands: ids}); err != nil {
			return err
		}
	}
	return nil
}
