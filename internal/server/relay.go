package server

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/multisession"
)

// Relay serves workers for all nodes of a cluster: one that says that it is direct has this node's session, for any other this
// node has sessions with the others in its name. Those say direct, so nothing is relayed twice.
type Relay struct {
	// Work is this node's, which tells where the others are by SetNodes of its hub.
	Work carillon.Work
	// Reach opens a session with the node at an address; ctx bounds the opening.
	Reach func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error)
	// Over reports whether the lease of a run that another node has sent is over, so that nobody should begin it. Nil: none is.
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
	return multisession.Open(own, multisession.Options{Hello: hello, Connect: r.Reach, Over: r.Over, Tied: true}), nil
}

// relayed is the work of this node's hub, for all nodes if there may be others.
func (n *Node) relayed(work carillon.Work) carillon.Work {
	if n.member == nil {
		return work
	}
	return Relay{Work: work, Reach: Reach, Over: n.over}
}

// over reports whether the lease of a run has certainly ended by the store's clock: it was held up, since this node was halted, or
// what is between it and the run's.
func (n *Node) over(run *carillon.Run) bool {
	return run.Lease > 0 && n.member.StoreNow().After(run.Started.Add(run.Lease+cluster.MaxSkew))
}

// Reach reaches another node's hub over gRPC.
func Reach(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
	return client.ConnectTo(ctx, address, hello)
}
