package cluster

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/permit"
)

// Register implements [engine.Partitions].
func (r *Router) Register(ctx context.Context, p int, edges []partition.Dependency) ([]bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]bool, error) { return s.Register(ctx, p, edges) })
}

// Release implements [engine.Partitions].
func (r *Router) Release(ctx context.Context, p int, l partition.Notice) (partition.Answer, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (partition.Answer, error) { return s.Release(ctx, p, l) })
}

// Waits implements [engine.Partitions].
func (r *Router) Waits(ctx context.Context, p int, e partition.Dependency) (bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (bool, error) { return s.Waits(ctx, p, e) })
}

// Keeps implements [engine.Partitions].
func (r *Router) Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (bool, error) { return s.Keeps(ctx, p, job) })
}

// ApplyShare implements [engine.Partitions].
func (r *Router) ApplyShare(ctx context.Context, p int, share *partition.Share) ([]carillon.PutResult, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]carillon.PutResult, error) {
		return s.ApplyShare(ctx, p, share)
	})
}

// DeleteIn implements [engine.Partitions].
func (r *Router) DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (int, error) { return s.DeleteIn(ctx, p, namespace, prefix) })
}

// RedriveIn implements [engine.Partitions].
func (r *Router) RedriveIn(ctx context.Context, p int, namespace, job string) (int, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (int, error) { return s.RedriveIn(ctx, p, namespace, job) })
}

// Relay implements [engine.Partitions]. The local engine calls it because it does not own the partition,
// whatever the view says: the view is as old as the last answer of the store, from which this node may be cut
// off. Another node owns the partition then, or will soon.
func (r *Router) Relay(ctx context.Context, p int, said engine.Reports) (engine.RelayResult, error) {
	tries := 0
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (engine.RelayResult, error) {
		if s != Services(r.n.local) {
			return s.Relay(ctx, p, said)
		}
		s, done, err := r.heir(p, tries)
		if err != nil {
			return engine.RelayResult{}, unreached(err)
		}
		defer done()
		tries++
		return s.Relay(ctx, p, said)
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

// RequestPermits implements [engine.Partitions].
func (r *Router) RequestPermits(ctx context.Context, p int, from permit.Asker, asks []permit.Request) ([]permit.Grant, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]permit.Grant, error) {
		return s.RequestPermits(ctx, p, from, asks)
	})
}

// DeliverPermits implements [engine.Partitions].
func (r *Router) DeliverPermits(ctx context.Context, p int, grants []permit.Grant) error {
	_, err := route(ctx, r, p, again, func(ctx context.Context, s Services) (struct{}, error) {
		return struct{}{}, s.DeliverPermits(ctx, p, grants)
	})
	return err
}
