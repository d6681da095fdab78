package sim_test

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/health"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// unfitMutants are bugs that show where a node lives and cannot own partitions.
var unfitMutants = []mutant{
	{"a node that cannot claim or commit says that it can", sim.Bars, []string{"L1"},
		func(*sim.Plan) sim.Mutant {
			return sim.Mutant{
				Store: func(s store.Store) store.Store { return boasting{s} },
				Local: func(l cluster.Local, _ store.Store, _ string) cluster.Local { return cheerful{l} },
			}
		}},
}

// cheerful never says that it fails at anything.
type cheerful struct{ cluster.Local }

// Failing is for [cluster.Local].
func (cheerful) Failing() []health.Failure { return nil }

// boasting is a store on whose proving ground everything succeeds, whatever becomes of it elsewhere.
type boasting struct{ store.Store }

// Leaser is for [store.Store].
func (b boasting) Leaser() store.Leaser {
	return boastingLeaser{b.Store.Leaser(), b.Meta().ProvingGround()}
}

// Shard is for [store.Store].
func (b boasting) Shard(p int, t store.Term) (store.Shard, error) {
	if p != b.Meta().ProvingGround() {
		return b.Store.Shard(p, t)
	}
	sh, err := b.Store.Shard(0, store.Term{})
	return boastingShard{sh}, err
}

type boastingLeaser struct {
	store.Leaser
	ground int
}

// Claim is for [store.Leaser].
func (l boastingLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	if ps[0] == l.ground {
		return []store.Term{{Epoch: 1, Nonce: 1}}, ctx.Err()
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

// Release is for [store.Leaser].
func (l boastingLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if held[0].Partition == l.ground {
		return ctx.Err()
	}
	return l.Leaser.Release(ctx, node, held)
}

type boastingShard struct{ store.Shard }

// Apply is for [store.Shard].
func (boastingShard) Apply(ctx context.Context, _ *store.Batch) error { return ctx.Err() }

// Read is for [store.Shard].
func (boastingShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	out := make([]store.Record, len(refs))
	for i := range out {
		out[i].Exists = true
	}
	return out, ctx.Err()
}
