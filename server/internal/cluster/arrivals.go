package cluster

import (
	"context"
	"log/slog"

	"github.com/carillonhq/carillon/server/store"
)

// logChanges logs which nodes came, left and were lost between two views, other than me: those with the first
// view are no news. A node that is told to end says so to the others before it goes. One that goes without a
// word is lost: it was killed, is cut off from the store, or stands still.
func logChanges(log *slog.Logger, me string, before, now *view) {
	if len(before.members) == 0 {
		return
	}
	for i := range before.members {
		m := &before.members[i]
		switch {
		case m.ID == me || now.has(m):
		case announcedItsEnd(m):
			log.Info("a node has left", "node", m.ID, "address", m.Address, "nodes", len(now.members))
		default:
			log.Warn("a node is lost: others own its partitions when its leases have ended", "node", m.ID, "address",
				m.Address, "partitions", before.owned(m.ID, nil), "nodes", len(now.members))
		}
	}
	for i := range now.members {
		if m := &now.members[i]; m.ID != me && !before.has(m) {
			log.Info("a node has joined", "node", m.ID, "address", m.Address, "nodes", len(now.members))
		}
	}
}

// announcedItsEnd reports whether a member has said that it leaves. One of a version that says nothing has if
// it wants no partitions.
func announcedItsEnd(m *store.Member) bool {
	switch conditionOf(m).Phase {
	case phaseLeaving, phaseEnded:
		return true
	case "":
		return m.Capacity == 0
	}
	return false
}

// has reports whether the process that a member stands for is in the view.
func (v *view) has(m *store.Member) bool {
	same, ok := v.member(m.ID)
	return ok && same.Nonce == m.Nonce
}

// Living is a process of a node that lives.
type Living struct {
	Node    string
	Nonce   uint64
	Leaving bool // it has said that it leaves
}

// Living returns the nodes that live, by name, as this one knows, or, with fresh, as the store has them now.
func (n *Node) Living(ctx context.Context, fresh bool) ([]Living, error) {
	v := n.views.load()
	if fresh {
		var err error
		if v, err = n.fresh(ctx); err != nil {
			return nil, err
		}
	}
	all := make([]Living, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		all[i] = Living{Node: m.ID, Nonce: m.Nonce, Leaving: announcedItsEnd(m)}
	}
	return all, nil
}
