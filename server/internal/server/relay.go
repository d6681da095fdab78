package server

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/multisession"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// Relay serves workers for all nodes of a cluster. A worker that is direct gets this node's session. For any
// other worker this node opens sessions with the other nodes on its behalf; those are direct, so nothing is
// relayed twice.
type Relay struct {
	// Work is this node's; its hub's SetNodes tells where the other nodes are.
	Work carillon.Work
	// Reach opens a session with the node at an address; ctx bounds the opening.
	Reach func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error)
	// Over reports whether the lease of a run from another node is over, so that it should not be started.
	// Nil: never.
	Over func(run *carillon.Run) bool
}

// Connect implements [carillon.Work].
func (r Relay) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	if hello.Direct {
		return r.Work.Connect(ctx, hello)
	}
	hello.Direct = true
	own, err := r.Work.Connect(ctx, hello)
	if err != nil {
		return nil, err
	}
	return multisession.Open(own, multisession.Options{Hello: hello, Connect: r.Reach, Over: r.Over,
		Tied: true}), nil
}

// relayed returns the work of this node's hub, for all nodes if there may be others.
func (n *Node) relayed(work carillon.Work) carillon.Work {
	if n.member == nil || n.config.unreachable() {
		return work
	}
	return Relay{Work: work, Reach: n.config.Credentials.reach(peer.Secret(n.store.Meta().MACKey)), Over: n.over}
}

// over reports whether the lease of a run has certainly ended by the store's clock: the run was held up
// because this node, or something between it and the run's node, was halted.
func (n *Node) over(run *carillon.Run) bool {
	return run.Lease > 0 && n.member.StoreNow().After(run.Started.Add(run.Lease+cluster.MaxSkew))
}

// Reach opens a session with another node's hub over gRPC, in plain text.
func Reach(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
	return client.ConnectTo(ctx, address, hello)
}
