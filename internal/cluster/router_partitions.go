package cluster

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
)

// Register implements [engine.Partitions].
func (r *Router) Register(ctx context.Context, p int, edges []partition.Edge) ([]bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]bool, error) { return s.Register(ctx, p, edges) })
}

// Release implements [engine.Partitions].
func (r *Router) Release(ctx context.Context, p int, l partition.Letter) (partition.Answer, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (partition.Answer, error) { return s.Release(ctx, p, l) })
}

// Waits implements [engine.Partitions].
func (r *Router) Waits(ctx context.Context, p int, e partition.Edge) (bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (bool, error) { return s.Waits(ctx, p, e) })
}

// Keeps implements [engine.Partitions].
func (r *Router) Keeps(ctx context.Context, p int, job *carillon.Job) (bool, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (bool, error) { return s.Keeps(ctx, p, job) })
}

// ApplyShare implements [engine.Partitions].
func (r *Router) ApplyShare(ctx context.Context, p int, share *partition.Share) ([]carillon.Put, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]carillon.Put, error) { return s.ApplyShare(ctx, p, share) })
}

// DeleteIn implements [engine.Partitions].
func (r *Router) DeleteIn(ctx context.Context, p int, namespace, prefix string) (int, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (int, error) { return s.DeleteIn(ctx, p, namespace, prefix) })
}

// RedriveIn implements [engine.Partitions].
func (r *Router) RedriveIn(ctx context.Context, p int, namespace, job string) (int, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (int, error) { return s.RedriveIn(ctx, p, namespace, job) })
}

// Hear implements [engine.Partitions]. The engine here asks, and so does not own the partition, whatever the view says: that is as
// old as the last answer of the store, from which this node may be cut off. Then another node has the partition, or will soon.
func (r *Router) Hear(ctx context.Context, p int, said engine.Said) (engine.Heard, error) {
	tries := 0
	return route(ctx, r, p, again, func(ctx context.Context, s Services) (engine.Heard, error) {
		if s != Services(r.n.local) {
			return s.Hear(ctx, p, said)
		}
		s, done, err := r.heir(p, tries)
		if err != nil {
			return engine.Heard{}, unreached(err)
		}
		defer done()
		tries++
		return s.Hear(ctx, p, said)
	})
}

// heir is who should own a partition if this node does not, or with more tries another one.
func (r *Router) heir(p, tries int) (s Services, done func(), err error) {
	heirs := r.n.view.Load().heirs(r.n.id, p)
	if len(heirs) == 0 {
		return nil, nil, fmt.Errorf("partition %d has no other owner", p)
	}
	return r.n.peers.of(heirs[tries%len(heirs)])
}

// AskTokens implements [engine.Partitions].
func (r *Router) AskTokens(ctx context.Context, p int, from partition.Asker, asks []partition.TokenAsk) ([]partition.TokenGrant, error) {
	return route(ctx, r, p, again, func(ctx context.Context, s Services) ([]partition.TokenGrant, error) {
		return s.AskTokens(ctx, p, from, asks)
	})
}

// GiveTokens implements [engine.Partitions].
func (r *Router) GiveTokens(ctx context.Context, p int, grants []partition.TokenGrant) error {
	_, err := route(ctx, r, p, again, func(ctx context.Context, s Services) (struct{}, error) {
		return struct{}{}, s.GiveTokens(ctx, p, grants)
	})
	return err
}
