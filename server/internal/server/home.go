package server

import (
	"context"
	"errors"
	"sync"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/monitor"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/webhooks"
)

// keepHome does what only the node does that owns the partition [partition.Home], once it does, until the
// returned end is called: it sees which nodes live and which queues are unserved, tells webhooks, and
// collects payloads.
func (n *Node) keepHome() (end func()) {
	look := monitor.New(monitor.Options{
		Home: n.engine, Queues: n.cluster.ListQueues, After: n.engine.UnservedAfter, Now: n.config.Now,
		Log: n.config.Log, Nodes: n.seenNodes(),
	})
	tell := webhooks.New(webhooks.Options{
		Engine: n.engine, Put: n.calls.PutJob, Now: n.config.Now, Log: n.config.Log, Supports: n.brokers.supports,
		Told: n.metrics.EventTold, Refused: n.metrics.EventRefused, Missed: n.metrics.EventsMissed,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { look.Run(ctx) })
	running.Go(func() { tell.Run(ctx) })
	running.Go(func() { n.keepPayloads(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// seenNodes returns what lists the nodes that live; nil if the node is alone.
func (n *Node) seenNodes() func(context.Context, bool) ([]partition.SeenNode, error) {
	if n.member == nil {
		return nil
	}
	return func(ctx context.Context, fresh bool) ([]partition.SeenNode, error) {
		living, err := n.member.Living(ctx, fresh)
		here := err != nil
		all := make([]partition.SeenNode, len(living))
		for i, l := range living {
			all[i] = seenNode(l)
			here = here || l.Node == n.config.Name
		}
		if !here { // the store may have lost its members for a moment: that is no news of the others
			err = errNotAMember
		}
		return all, err
	}
}

// errNotAMember is why a node says nothing of others.
var errNotAMember = errors.New("this node is not among those that live")

func seenNode(l cluster.Living) partition.SeenNode {
	return partition.SeenNode{Name: l.Node, Nonce: l.Nonce, Leaving: l.Leaving}
}
