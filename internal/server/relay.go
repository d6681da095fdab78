package server

import (
	"context"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/spread"
)

// Nodes is where the nodes of the cluster are reached, in any order, and a channel that is closed when that has changed. It
// is also what Dapr's WatchHosts is made of, with the addresses for sidecars.
type Nodes func() (addresses []string, changed <-chan struct{})

// WatchNodes keeps the hub's workers informed of where the nodes are until ctx ends. own is this node's address, which it tells
// them first. While the node is alone there is nothing to tell.
func WatchNodes(ctx context.Context, h *dispatch.Hub, own string, nodes Nodes) {
	var told []string
	for {
		addresses, changed := nodes()
		others := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == own || a == "" })
		slices.Sort(others)
		others = slices.Compact(others)
		if all := slices.Insert(others, 0, own); !slices.Equal(all, told) && (len(all) > 1 || told != nil) {
			told = all
			h.SetNodes(all)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Relay serves workers for all nodes of a cluster: one that says that it is direct has this node's session, for any other this
// node has sessions with the others in its name. Those say direct, so nothing is relayed twice.
type Relay struct {
	// Work is this node's, which tells where the others are ([WatchNodes]).
	Work carillon.Work
	// Reach opens a session with the node at an address; ctx bounds the opening. [Reach] is one.
	Reach func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error)
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
	return spread.Open(own, spread.Options{Hello: hello, Connect: r.Reach, Tied: true}), nil
}

// Reach reaches other nodes' workers' streams over gRPC, as a client with the options does.
func Reach(options ...client.Option) func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
	return func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error) {
		return client.ConnectTo(ctx, address, hello, options...)
	}
}
