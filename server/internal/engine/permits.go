package engine

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permit"
)

// limitsChanged has the limits of a namespace checked again; "" stands for all namespaces.
func (m *limiter) limitsChanged(namespace string) {
	if m.partitions.peers == nil {
		m.locked(func(c *permit.Counter) { c.Changed(namespace) })
		return
	}
	for _, p := range m.partitions.parts {
		if p.own.holds() {
			p.box.put(func(in *mail) { in.cluster.settings = append(in.cluster.settings, namespace) })
		}
	}
}

// asksAtMost bounds the limits in one request.
const asksAtMost = 4096

func serveRequestPermits(ctx context.Context, p *partitionRunner, m message.RequestPermits) (any, error) {
	parts, from, asks := len(p.e.parts), m.From, m.Requests
	switch {
	case p.e.peers == nil:
		return nil, noHomes()
	case from.Partition < 0 || from.Partition >= parts:
		return nil, carillon.Errorf(carillon.InvalidArgument, "from",
			"%d is not one of the store's partitions, 0 to %d", from.Partition, parts-1)
	case len(asks) > asksAtMost:
		return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "%d are more than %d", len(asks), asksAtMost)
	}
	for i := range asks {
		if home := permit.HomeOf(asks[i].Limit, parts); home != p.number {
			return nil, carillon.Errorf(carillon.InvalidArgument, "asks",
				"the home of limit %.64q is partition %d, not %d", asks[i].Key, home, p.number)
		}
	}
	return inRoundSeq(ctx, p, call{relayed: true},
		func(p *partitionRunner, _ int64) ([]message.PermitGrant, uint64, error) {
			grants, seq := p.permits.grant(from, asks)
			return grants, seq, nil
		})
}

func serveDeliverPermits(p *partitionRunner, m message.DeliverPermits) (any, error) {
	switch {
	case p.e.peers == nil:
		return nil, noHomes()
	case !p.own.holds():
		return nil, notOwner(p.number)
	case !p.box.put(func(in *mail) { in.cluster.grants = append(in.cluster.grants, m.Grants...) }):
		return nil, errStopping()
	}
	return struct{}{}, nil
}

func noHomes() error {
	return carillon.Errorf(carillon.FailedPrecondition, "", "this node counts permits by itself")
}
