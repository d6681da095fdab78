package cluster

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/internal/message"
)

// Ask implements [message.Partitions].
func (r *Router) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	switch m := m.(type) {
	case message.RelayReports:
		return r.relay(ctx, p, m)
	case message.Once:
		return route(ctx, r, p, once, asks(p, m))
	}
	return route(ctx, r, p, again, asks(p, m))
}

// asks returns the function that sends a message to a partition's owner.
func asks(p int, m message.Message) func(ctx context.Context, s Services) (any, error) {
	return func(ctx context.Context, s Services) (any, error) { return s.Ask(ctx, p, m) }
}

// relay is Ask for reports. The local engine sends them because it does not own the partition, whatever the
// view says: the view is as old as the last answer of the store, from which this node may be cut off. Another
// node owns the partition then, or will soon.
func (r *Router) relay(ctx context.Context, p int, m message.RelayReports) (any, error) {
	tries := 0
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (any, error) {
		if s != Services(r.n.local) {
			return s.Ask(ctx, p, m)
		}
		s, done, err := r.heir(p, tries)
		if err != nil {
			return nil, unreached(err)
		}
		defer done()
		tries++
		return s.Ask(ctx, p, m)
	})
}

// heir returns the node that should own a partition if this node does not, and with more tries the other
// members in turn.
func (r *Router) heir(p, tries int) (s Services, done func(), err error) {
	heirs := r.n.views.load().heirs(r.n.id, p)
	if len(heirs) == 0 {
		return nil, nil, fmt.Errorf("partition %d has no other owner", p)
	}
	return r.n.peers.of(heirs[tries%len(heirs)])
}
