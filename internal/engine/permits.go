package engine

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/permit"
)

// limitsChanged has the limits of a namespace checked again; "" stands for all namespaces.
func (e *Engine) limitsChanged(namespace string) {
	if e.cfg.Peers == nil {
		e.limiter.changed(namespace)
		return
	}
	for _, p := range e.parts {
		if p.own.holds() {
			p.box.put(func(m *mail) { m.cluster.settings = append(m.cluster.settings, namespace) })
		}
	}
}

// asksAtMost bounds the limits in one request.
const asksAtMost = 4096

// grantPermits answers [RequestPermits].
func (e *Engine) grantPermits(ctx context.Context, p *partitionRunner, from permit.Asker, asks []permit.Request) (
	[]permit.Grant, error,
) {
	switch {
	case e.cfg.Peers == nil:
		return nil, noHomes()
	case from.Partition < 0 || from.Partition >= len(e.parts):
		return nil, carillon.Errorf(carillon.InvalidArgument, "from", "%d is not one of the store's partitions, 0 to %d",
			from.Partition, len(e.parts)-1)
	case len(asks) > asksAtMost:
		return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "%d are more than %d", len(asks), asksAtMost)
	}
	for i := range asks {
		if home := asks[i].HomeOf(len(e.parts)); home != p.number {
			return nil, carillon.Errorf(carillon.InvalidArgument, "asks", "the home of limit %.64q is partition %d, not %d",
				asks[i].Key, home, p.number)
		}
	}
	return askSeq(ctx, p, call{relayed: true}, func(p *partitionRunner, _ int64) ([]permit.Grant, uint64, error) {
		grants, seq := p.permits.grant(from, asks)
		return grants, seq, nil
	})
}

// takePermits takes what [DeliverPermits] brings.
func (e *Engine) takePermits(p *partitionRunner, grants []permit.Grant) error {
	switch {
	case e.cfg.Peers == nil:
		return noHomes()
	case !p.own.holds():
		return notOwner(p.number)
	case !p.box.put(func(m *mail) { m.cluster.grants = append(m.cluster.grants, grants...) }):
		return errStopping()
	}
	return nil
}

func noHomes() error {
	return carillon.Errorf(carillon.FailedPrecondition, "", "this node counts permits by itself")
}
