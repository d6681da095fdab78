package kubens

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// headStart is how long each node gives the one before it.
const headStart = 15 * time.Second

// Turn returns how long a node of a cluster leaves the jobs of a namespace to those before it, in the
// order of their names: the first begins at once, and the others find nothing left. A node that cannot
// tell begins, as nothing is done twice.
func Turn(cluster carillon.Cluster, node string) func(context.Context) time.Duration {
	return func(ctx context.Context) time.Duration {
		status, err := cluster.ClusterStatus(ctx)
		if err != nil {
			return 0
		}
		before := slices.IndexFunc(status.Nodes, func(n carillon.Node) bool { return n.ID == node })
		return time.Duration(max(before, 0)) * headStart
	}
}
