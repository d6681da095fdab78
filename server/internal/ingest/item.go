package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/message"
)

// callWithin is how long a command may take; then it is tried again.
const callWithin = 10 * time.Second

// item is a message that was received.
type item struct {
	topic *topic
	d     *broker.Delivery
	cmd   message.Command
	order carillon.Key // messages with the same are handled one after the other
	fault error        // why it is no command; nil: it is
	again bool         // it could not be done, and is tried again
	held  bool         // the same, or the dead-letter topic has not taken it
}

func (g *Ingest) newItem(t *topic, d *broker.Delivery) *item {
	it := &item{topic: t, d: d}
	e, err := parse(d)
	if err != nil {
		it.fault = err
		return it
	}
	it.cmd, it.fault = g.config.command(e, d.Sent, time.Now())
	if it.order = it.cmd.Key; it.cmd.Complete != nil {
		it.order.Name = "\x00" + it.cmd.Complete.Token // results of one attempt; no job has such a name
	}
	return it
}

// handle has the command of a message done, or the message put into the dead-letter topic, and acknowledges
// it then. It tries until ctx ends.
func (g *Ingest) handle(ctx, calls context.Context, it *item) {
	outcome, done := g.see(ctx, calls, it)
	if !done {
		it.d.Release()
		return
	}
	g.acknowledge(it, outcome)
}

// acknowledge ends a message that is done, durably, or is a dead letter.
func (g *Ingest) acknowledge(it *item, o Outcome) {
	it.d.Done()
	g.count(it.topic, o)
}

// see returns what became of a message; done is false if it is left unacknowledged.
func (g *Ingest) see(ctx, calls context.Context, it *item) (o Outcome, done bool) {
	var pause reconnect.Backoff
	defer func() {
		if it.again {
			g.retries.end()
		}
		if it.held {
			it.topic.held.end()
		}
	}()
	for {
		if ctx.Err() != nil || !it.d.Begin() {
			return "", false
		}
		before, err := false, it.fault
		if err == nil {
			before, err = g.do(calls, &it.cmd)
		}
		switch {
		case err == nil && before:
			return Repeated, true
		case err == nil:
			return Done, true
		case it.fault == nil && refused(err):
			if before, err = g.refuse(calls, &it.cmd, err); before {
				return Repeated, true
			}
		}
		if refused(err) {
			return Dead, g.bury(ctx, calls, it, err)
		}
		if calls.Err() != nil {
			return "", false
		}
		g.triedAgain(it, err)
		if pause = pause.Next(); pause.Wait(ctx) != nil {
			return "", false
		}
	}
}

// triedAgain notes that the command of a message could not be done, and is tried again.
func (g *Ingest) triedAgain(it *item, err error) {
	if !it.again {
		it.again = true
		g.retries.begin(it.d.At, err)
	}
	g.hold(it, told(err))
}

// told is why a command is tried again, for the viewers of its namespace: the whole text only if it is about
// the command, such as a quota. That of others may name hosts, users and databases of the node's store.
func told(err error) string {
	e, ok := errors.AsType[*carillon.Error](err)
	if ok && e.Kind == carillon.ResourceExhausted && !e.Unknown && !errors.Is(err, message.ErrNotTaken) &&
		!errors.Is(err, message.ErrNotOwner) {
		return e.Message
	}
	return "the owner of the partition, or its store, cannot do it at present; the log of the node says why"
}

// hold notes that a message is tried again, and why.
func (g *Ingest) hold(it *item, why string) {
	it.topic.held.fails(!it.held, why)
	it.held = true
	g.count(it.topic, Retried)
}

func (g *Ingest) do(calls context.Context, c *message.Command) (before bool, err error) {
	return g.o.To.Do(g.limit.of(calls), *c)
}

// refuse has a command refused for good, and returns why; or that it was done before. If it came again when
// what follows it has been done, it might be one that can be done, and would be a dead letter and done. A
// refused completion stays one.
func (g *Ingest) refuse(calls context.Context, c *message.Command, why error) (before bool, err error) {
	reason, ok := errors.AsType[*carillon.Error](why)
	if !ok || c.Complete != nil {
		return false, why
	}
	refusal := &carillon.Error{Kind: reason.Kind, Field: reason.Field, Message: reason.Message}
	before, err = g.o.To.Do(g.limit.of(calls), message.Command{Request: c.Request, Key: c.Key,
		KeepFor: c.KeepFor, Refusal: refusal})
	if before || err == nil {
		return before, why
	}
	return false, err // it was refused before, for that reason; or that is not known
}

// refused reports whether a command will not be done however often it is asked for. What is not known, or may
// pass, is tried again.
func refused(err error) bool {
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok || e.Unknown || errors.Is(err, message.ErrNotOwner) || errors.Is(err, message.ErrNotTaken) {
		return false
	}
	switch e.Kind {
	case carillon.InvalidArgument, carillon.NotFound, carillon.AlreadyExists, carillon.FailedPrecondition,
		carillon.PermissionDenied, carillon.Unauthenticated, carillon.DataLoss:
		return true
	case carillon.ResourceExhausted:
		// The job has as many unfinished runs as it can have, until some end; or its namespace is at a quota.
		return e.Field != "name" && !message.OverQuota(e)
	}
	return false
}
