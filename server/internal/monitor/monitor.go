// Package monitor sees what no partition sees by itself: which nodes live, and which queues nobody serves.
// The node in charge, which owns the partition Home, has it recorded as events; see [partition.Told].
package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// Home is where the engine of the node keeps what was seen.
type Home interface {
	// OwnsHome reports whether this node is in charge.
	OwnsHome() bool
	// SeeNodes has it recorded which nodes live.
	SeeNodes(ctx context.Context, nodes []partition.SeenNode) error
	// SeeUnserved has it recorded which queues are unserved.
	SeeUnserved(ctx context.Context, queues []partition.UnservedQueue) error
}

// Options say where a monitor looks.
type Options struct {
	Home Home
	// Nodes returns the nodes that live, as this one knows, or, with fresh, as the store has them now.
	// Nil: this one is alone, which is no news.
	Nodes func(ctx context.Context, fresh bool) ([]partition.SeenNode, error)
	// Queues lists the queues of all nodes.
	Queues func(ctx context.Context, q carillon.QueueQuery) (carillon.QueuePage, error)
	// After returns for how long a queue of a namespace must be unserved.
	After func(namespace string) time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Monitor looks while this node is in charge.
type Monitor struct {
	o        Options
	nodes    []partition.SeenNode // as they were seen last
	unserved map[delivery.Queue]seen
	looked   time.Time // when the queues were seen last, by the monotonic clock
	again    bool      // what was seen of them is to be said again
	failing  bool      // the last look failed
}

// seen is an unserved queue.
type seen struct {
	since time.Time // when it was first seen so, or when its oldest run was due if that is later
	long  bool      // it has been so for long enough to be told
}

// New returns a monitor.
func New(o Options) *Monitor { return &Monitor{o: o} }

// Times and bounds of a monitor.
const (
	nodesEvery  = time.Second
	queuesEvery = 15 * time.Second
	lookWithin  = 10 * time.Second
	mostPages   = 20 // of queues
	pageSize    = 1000
)

// Run looks until ctx ends.
func (l *Monitor) Run(ctx context.Context) {
	tick := time.NewTicker(nodesEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look looks once, if this node is in charge.
func (l *Monitor) look(ctx context.Context) {
	if !l.o.Home.OwnsHome() {
		l.nodes, l.unserved, l.looked = nil, nil, time.Time{}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	err := l.lookAtNodes(ctx)
	if now := time.Now(); err == nil && now.Sub(l.looked) >= queuesEvery {
		if err = l.lookAtQueues(ctx); err == nil {
			l.looked = now
		}
	}
	if err != nil && !l.failing {
		l.o.Log.Debug("what nodes and queues do is not recorded at present", "error", err)
	}
	l.failing = err != nil
}

// lookAtNodes has the nodes recorded if they are others than last time. What this node knows may be older
// than what the last one in charge has recorded, so the store is asked.
func (l *Monitor) lookAtNodes(ctx context.Context) error {
	if l.o.Nodes == nil {
		return nil
	}
	nodes, err := l.o.Nodes(ctx, false)
	if err != nil || slices.Equal(nodes, l.nodes) {
		return err
	}
	if nodes, err = l.o.Nodes(ctx, true); err != nil {
		return err
	}
	if err := l.o.Home.SeeNodes(ctx, nodes); err != nil {
		return err
	}
	l.nodes = nodes
	return nil
}

// lookAtQueues has the unserved queues recorded if they are others than last time.
func (l *Monitor) lookAtQueues(ctx context.Context) error {
	now := l.o.Now()
	unserved := map[delivery.Queue]seen{}
	q := carillon.QueueQuery{PageSize: pageSize}
	for range mostPages {
		page, err := l.o.Queues(ctx, q)
		if err == nil && len(page.Unheard) > 0 { // what they know of queues is not in the page
			err = fmt.Errorf("nodes that have not answered: %v", page.Unheard)
		}
		if err != nil {
			return err
		}
		for i := range page.Queues {
			if row := &page.Queues[i]; row.Unserved {
				of := delivery.Queue{Namespace: row.Namespace, Kind: row.Kind, Address: row.Name}
				unserved[of] = l.see(of, row.Oldest, now)
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	if l.unserved != nil && !l.again && maps.EqualFunc(unserved, l.unserved, alike) {
		l.unserved = unserved
		return nil
	}
	l.unserved, l.again = unserved, true
	all := make([]partition.UnservedQueue, 0, len(unserved))
	for of, s := range unserved {
		all = append(all, partition.UnservedQueue{Queue: of, Since: s.since.UnixNano(), Long: s.long})
	}
	err := l.o.Home.SeeUnserved(ctx, all)
	l.again = err != nil
	return err
}

// alike reports whether what is to be recorded of an unserved queue is the same.
func alike(a, b seen) bool { return a.long == b.long }

// see returns what is now seen of an unserved queue whose oldest run was due at an instant.
func (l *Monitor) see(of delivery.Queue, oldest, now time.Time) seen {
	s, known := l.unserved[of]
	if !known {
		s.since = now
	}
	since := s.since
	if oldest.After(since) {
		since = oldest
	}
	return seen{since: since, long: s.long || now.Sub(since) >= l.o.After(of.Namespace)}
}
