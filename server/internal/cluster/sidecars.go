package cluster

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/server/store"
)

// Settler has the streams of a sidecar settle, which is about to close them: nothing more is sent to it. It
// returns when the sidecar, whose connections come from an address, has answered what it has; told says that
// it closes them now.
type Settler func(ctx context.Context, from string, told bool)

// OnSettle sets what has the streams of this node settle.
func (n *Node) OnSettle(f Settler) { n.settler.Store(&f) }

// SettleSidecar implements [Control].
func (n *Node) SettleSidecar(ctx context.Context, from string, told bool) error {
	if f := n.settler.Load(); f != nil {
		(*f)(ctx, from, told)
	}
	return nil
}

// SettleAll has the streams of a sidecar settle on all nodes. It returns when they have, or ctx ends. A node
// that cannot be asked is left out.
func (n *Node) SettleAll(ctx context.Context, from string, told bool) {
	n.peers.each(withSelf(n.views.load().members, n.cfg.Member), func(m store.Member, c Control) {
		if err := c.SettleSidecar(ctx, from, told); err != nil && !errors.Is(err, ErrOlder) {
			n.log.Debug("a node was not asked to let a sidecar's streams settle", "node", m.ID, "error", err)
		}
	})
}
