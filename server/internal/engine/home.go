package engine

import (
	"context"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// home is what the node does that owns the partition which keeps what there is once in the store
// ([partition.Home]). Calls fail on other nodes.
type home struct{ partitions *partitions }

func (h home) partition() *partitionRunner { return h.partitions.parts[partition.Home] }

// OwnsHome reports whether this node is in charge.
func (h home) OwnsHome() bool { return h.partition().own.holds() }

// SeeNodes has events recorded of what has changed, if these are all nodes that live.
func (h home) SeeNodes(ctx context.Context, nodes []partition.SeenNode) error {
	return h.change(ctx, func(m *partition.Machine, now int64) { m.Told.Nodes(now, nodes) })
}

// SeeUnserved has events recorded of what has changed, if these are all queues that are unserved.
func (h home) SeeUnserved(ctx context.Context, queues []partition.UnservedQueue) error {
	return h.change(ctx, func(m *partition.Machine, now int64) { m.Told.Queues(now, queues) })
}

// webhooksKey is that of the record of kind store.KindWebhooks.
const webhooksKey = "position"

// WebhooksPosition returns how far webhooks have been told: what the last SetWebhooksPosition has set;
// empty if there was none.
func (h home) WebhooksPosition(ctx context.Context) (string, error) {
	records, err := h.partitions.shards[partition.Home].MetaRecords(ctx,
		store.MetaQuery{Kind: store.KindWebhooks, Limit: 1})
	switch {
	case err != nil:
		return "", readError(err)
	case len(records) == 0:
		return "", nil
	}
	return string(records[0].Value), nil
}

// SetWebhooksPosition sets it, durably.
func (h home) SetWebhooksPosition(ctx context.Context, position string) error {
	r := store.MetaRecord{Kind: store.KindWebhooks, Key: webhooksKey, Value: []byte(position)}
	return h.change(ctx, func(m *partition.Machine, _ int64) { m.Write(r) })
}

// change changes the partition durably.
func (h home) change(ctx context.Context, f func(m *partition.Machine, now int64)) error {
	_, err := inRound(ctx, h.partition(), call{}, func(p *partitionRunner, now int64) (struct{}, error) {
		f(p.m, now)
		return struct{}{}, nil
	})
	return err
}
