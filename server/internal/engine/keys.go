package engine

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// keys reads and changes the API keys, which are in one partition for the whole store (partition.Home). As of
// paused queues, a node reads them from the store, whoever owns that partition.
type keys struct{ partitions *partitions }

// AccessKeys reads all keys, in the order of their ids. Those that are damaged are left out, and said.
func (k keys) AccessKeys(ctx context.Context) (all []access.Key, damaged []error, err error) {
	records, err := AllMetaRecords(ctx, k.partitions.shards[partition.Home],
		store.MetaQuery{Kind: store.KindKey})
	if err != nil {
		return nil, nil, readError(err)
	}
	all, damaged = partition.DecodeKeys(records)
	return all, damaged, nil
}

// ChangeKey makes a change of the keys durable, on whichever node that is. done is false if there is no such
// key. The caller has the nodes told of it.
func (k keys) ChangeKey(ctx context.Context, m message.ChangeKey) (done bool, err error) {
	return across(ctx, k.partitions, k.partitions.parts[partition.Home], m)
}

func serveChangeKey(ctx context.Context, p *partitionRunner, m message.ChangeKey) (any, error) {
	if p.number != partition.Home {
		return false, carillon.Errorf(carillon.Internal, "partition", "%d does not keep the keys", p.number)
	}
	by := audit.From(ctx)
	done, err := inRound(ctx, p, call{}, func(p *partitionRunner, now int64) (done bool, err error) {
		switch {
		case m.Create != nil && m.First:
			done, err = p.m.Keys.CreateFirst(*m.Create)
		case m.Create != nil:
			done, err = true, p.m.Keys.Create(*m.Create)
		case m.Rotate != nil:
			done, err = p.m.Keys.Rotate(*m.Rotate, m.Was)
		case len(m.Uses) > 0:
			p.m.Keys.Use(m.Uses)
			return true, nil
		default:
			done = p.m.Keys.Revoke(m.ID)
		}
		if done && err == nil {
			record(p, by, now)
		}
		return done, err
	})
	if done && err == nil {
		by.Stored()
	}
	return done, err
}
