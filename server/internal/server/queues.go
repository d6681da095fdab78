package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// ownQueues is what this node knows of queues, workers and ingests: what waits in the partitions that it
// owns, who is connected to it, and what it takes from brokers.
type ownQueues struct {
	node    string
	backlog func() map[delivery.Queue]delivery.Backlog
	paused  func() map[delivery.Queue]carillon.QueuePause
	hub     *dispatch.Hub
	ingests atomic.Pointer[func(node string) []carillon.Ingest] // nil: nothing is taken from brokers
	// elsewhere is who takes the runs of a queue at other nodes, and who has not answered; nil: there are none.
	elsewhere func(ctx context.Context, q delivery.Queue) (carillon.Queue, []string)
}

// consumers returns who takes the runs of a queue. Other nodes are asked if nobody here has room.
func (o *ownQueues) consumers(ctx context.Context, q delivery.Queue) delivery.Consumers {
	c := o.hub.Look(q)
	// A node sends to HTTP hosts and brokers by itself.
	if o.elsewhere == nil || q.Sent() || c.Credits > 0 || c.Leaving {
		return c
	}
	others, unheard := o.elsewhere(ctx, q)
	c.Elsewhere, c.CreditsElsewhere = others.Consumers, others.Credits
	c.InFlightElsewhere, c.Unheard = others.InFlight, unheard
	return c
}

// named returns who takes the runs of one queue here.
func (o *ownQueues) named(q delivery.Queue) []carillon.Queue {
	c := o.hub.Look(q)
	if c.N == 0 {
		return nil
	}
	return []carillon.Queue{{Namespace: q.Namespace, Kind: q.Kind, Name: q.Address, Consumers: c.N,
		Silent: c.Silent, Credits: c.Credits, InFlight: c.InFlight}}
}

// OwnQueues implements [queues.Node].
func (o *ownQueues) OwnQueues(_ context.Context, q queues.Query) ([]carillon.Queue, error) {
	if q.Queue != "" {
		return o.named(delivery.Queue{Namespace: q.Namespace, Kind: q.Kind, Address: q.Queue}), nil
	}
	rows := map[delivery.Queue]carillon.Queue{}
	for _, s := range o.hub.Queues() {
		rows[s.Queue] = carillon.Queue{Consumers: s.Consumers, Silent: s.Silent, Credits: s.Credits,
			InFlight: s.InFlight}
	}
	for name, b := range o.backlog() {
		row := rows[name]
		row.Ready, row.Limited, row.Staged = b.Ready, b.Permits, b.Staged
		if b.Len() > 0 {
			row.Oldest = time.Unix(0, b.Oldest).UTC()
		}
		rows[name] = row
	}
	for name, pause := range o.paused() {
		row := rows[name]
		row.Pause = pause
		rows[name] = row
	}
	all := make([]carillon.Queue, 0, len(rows))
	for name, row := range rows {
		row.Namespace, row.Kind, row.Name = name.Namespace, name.Kind, name.Address
		paused := !row.Pause.Since.IsZero()
		row.Unserved = row.Waiting() > 0 && row.Consumers == row.Silent && !name.Sent() && !paused
		if paused || row.Waiting()+row.Consumers+row.InFlight > 0 {
			all = append(all, row)
		}
	}
	return q.Queues(all), nil
}

// OwnWorkers implements [queues.Node].
func (o *ownQueues) OwnWorkers(_ context.Context, q queues.Query) ([]queues.Connection, error) {
	var all []queues.Connection
	for _, w := range o.hub.Workers() {
		all = append(all, queues.Connection{Nth: w.Nth, Worker: carillon.Worker{Namespace: w.Namespace,
			Kind: w.Kind, ID: w.ID, Node: o.node, Labels: w.Labels, Queues: w.Queues, Since: w.Since,
			Credits: w.Credits, InFlight: w.InFlight, Silent: w.Silent,
			Version: w.Version, LastSeen: w.LastSeen}})
	}
	return q.Workers(all), nil
}

// OwnIngests implements [queues.Node].
func (o *ownQueues) OwnIngests(_ context.Context, q queues.Query) ([]carillon.Ingest, error) {
	own := o.ingests.Load()
	if own == nil {
		return nil, nil
	}
	return q.Ingests((*own)(o.node)), nil
}

// alone lists the queues, workers and ingests of a node that is alone.
func (o *ownQueues) alone(macKey []byte) queues.List {
	return queues.List{MACKey: macKey,
		Each: func(ctx context.Context, f func(ctx context.Context, id string, n queues.Node)) []string {
			f(ctx, o.node, o)
			return nil
		}}
}
