package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
	"github.com/carillonhq/carillon/internal/wire"
)

// Watch calls f with what happens; see [carillon.Events]. If the node leaves or the connection is lost, it
// goes on from where it was at whichever node can be reached, however long that takes. Only the first node
// must answer within a few seconds.
func (c *Client) Watch(ctx context.Context, q carillon.WatchQuery, f func(carillon.EventBatch) error) error {
	if err := wire.CheckText(wire.WatchQueryToProto(&q)); err != nil {
		return err
	}
	w := watch{query: q, f: f}
	began, backoff := time.Now(), reconnect.Backoff(0)
	for {
		since := time.Now()
		err := w.stream(ctx, c)
		again := !w.ended && errors.Is(err, carillon.Unavailable) && (w.begun || time.Since(began) < patience)
		if !again || ctx.Err() != nil {
			return err
		}
		backoff = backoff.Lost(time.Since(since))
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

// watch is one call of Watch, over several streams.
type watch struct {
	query carillon.WatchQuery
	f     func(carillon.EventBatch) error
	begun bool // a node has answered
	ended bool // by f
}

// stream watches over one stream until it ends.
func (w *watch) stream(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.events.Watch(ctx, wire.WatchQueryToProto(&w.query))
	if err != nil {
		return failed(err, false)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return watchless(failed(err, false))
		}
		b, err := wire.EventBatchFromProto(m)
		if err == nil {
			err = w.f(b)
		}
		if err != nil {
			w.ended = true
			return err
		}
		w.begun, w.query.Position = true, b.Position
	}
}

// watchless explains the error of a server that does not know this call.
func watchless(err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	return carillon.Errorf(carillon.FailedPrecondition, "", "this server is of a version without events (%w)", err)
}

// Events returns what happens, one event after the other, like [Client.Watch]: it goes on over lost
// connections. Whoever wants to go on later needs the positions, which Watch tells. An error is the last
// thing that it returns.
func (c *Client) Events(ctx context.Context, q carillon.WatchQuery) iter.Seq2[carillon.Event, error] {
	return func(yield func(carillon.Event, error) bool) {
		enough := errors.New("the caller has had enough")
		err := c.Watch(ctx, q, func(b carillon.EventBatch) error {
			for i := range b.Events {
				if !yield(b.Events[i], nil) {
					return enough
				}
			}
			return nil
		})
		if !errors.Is(err, enough) {
			yield(carillon.Event{}, err)
		}
	}
}
