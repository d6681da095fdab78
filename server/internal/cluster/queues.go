package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/queues"
	"github.com/carillonhq/carillon/server/store"
)

// heardWithin is how long the nodes may take to say what they know of queues and workers, and to learn which
// queues are paused.
const heardWithin = 2 * time.Second

// consumersWithin is the same for the read of one job or run, which says why it waits.
const consumersWithin = 300 * time.Millisecond

// clusterQueues implements [carillon.Queues] for all nodes.
type clusterQueues struct{ n *Node }

// OwnQueues implements [Control].
func (n *Node) OwnQueues(ctx context.Context, q queues.Query) ([]carillon.Queue, error) {
	return n.cfg.Queues.OwnQueues(ctx, q)
}

// OwnWorkers implements [Control].
func (n *Node) OwnWorkers(ctx context.Context, q queues.Query) ([]queues.Connection, error) {
	return n.cfg.Queues.OwnWorkers(ctx, q)
}

// ListQueues implements [carillon.Queues].
func (qs clusterQueues) ListQueues(ctx context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	return qs.lists().ListQueues(ctx, q)
}

// ListWorkers implements [carillon.Queues].
func (qs clusterQueues) ListWorkers(ctx context.Context,
	q carillon.WorkerQuery) (carillon.WorkerPage, error) {
	return qs.lists().ListWorkers(ctx, q)
}

// OwnIngests implements [Control].
func (n *Node) OwnIngests(ctx context.Context, q queues.Query) ([]carillon.Ingest, error) {
	return n.cfg.Queues.OwnIngests(ctx, q)
}

// ListIngests implements [carillon.Ingests].
func (qs clusterQueues) ListIngests(ctx context.Context,
	q carillon.IngestQuery) (carillon.IngestPage, error) {
	return qs.lists().ListIngests(ctx, q)
}

// ConsumersElsewhere returns who takes the runs of a queue at the other living nodes, and which of them have
// not answered in time.
func (qs clusterQueues) ConsumersElsewhere(ctx context.Context,
	q delivery.Queue) (carillon.Queue, []string) {
	self := qs.n.cfg.Member.ID
	return qs.among(consumersWithin, func(all []store.Member) []store.Member {
		return slices.DeleteFunc(slices.Clone(all), func(m store.Member) bool { return m.ID == self })
	}).Consumers(ctx, q)
}

// lists asks the living nodes.
func (qs clusterQueues) lists() queues.List {
	return qs.among(heardWithin,
		func(all []store.Member) []store.Member { return withSelf(all, qs.n.cfg.Member) })
}

// among asks some of the living nodes, which may take so long.
func (qs clusterQueues) among(within time.Duration,
	those func([]store.Member) []store.Member) queues.List {
	n := qs.n
	return queues.List{MACKey: n.cfg.Store.Meta().MACKey,
		Each: func(ctx context.Context, f func(ctx context.Context, id string, node queues.Node)) []string {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			return n.peers.ask(ctx, those(n.views.load().members), f)
		}}
}

// withSelf returns the living nodes, and this one also while it is not among them: it is leaving, or its
// heartbeats are late.
func withSelf(living []store.Member, self store.Member) []store.Member {
	if slices.ContainsFunc(living, func(m store.Member) bool { return m.ID == self.ID }) {
		return living
	}
	return append(slices.Clone(living), self)
}

// ask calls f for all members concurrently, and waits. It returns the ids of those that cannot be dialed.
func (p *peers) ask(ctx context.Context, members []store.Member,
	f func(ctx context.Context, id string, node queues.Node)) (unheard []string) {
	var all sync.WaitGroup
	for _, m := range members {
		c, done, err := p.control(m)
		if err != nil {
			unheard = append(unheard, m.ID)
			continue
		}
		all.Go(func() {
			defer done()
			f(ctx, m.ID, c)
		})
	}
	all.Wait()
	return unheard
}
