package server

import (
	"context"
	"slices"
	"sync"

	"github.com/carillonhq/carillon"
)

// followNodes keeps the hub's workers informed of the addresses of the cluster's nodes, until the returned
// end is called.
func (n *Node) followNodes() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		var told []string
		_ = n.cluster.WatchNodes(ctx, func(nodes []carillon.Node) error { // it ends with ctx
			if all := addresses(n.config.self.Address, nodes); !slices.Equal(all, told) {
				told = all
				n.hub.SetNodes(all)
			}
			return nil
		})
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// addresses returns the addresses of the nodes, own first.
func addresses(own string, nodes []carillon.Node) []string {
	all := []string{own}
	for _, node := range nodes {
		if node.Address != own {
			all = append(all, node.Address)
		}
	}
	return all
}
