package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newCluster returns the command `carillon cluster`.
func newCluster(a app) *cobra.Command {
	return newGroup("cluster", "Show the nodes that share a store, and move partitions between them",
		newClusterStatus(a), newClusterDrain(a), newClusterRebalance(a), newClusterMember(a), newClusterSnapshot(a),
		newClusterRestore(a))
}

// newClusterStatus returns the command `carillon cluster status`.
func newClusterStatus(a app) *cobra.Command {
	var c connection
	var partitions bool
	cmd := c.command(a, "status", "Show who lives and who owns what",
		func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			status, err := node.ClusterStatus(ctx)
			return answer{message: wire.ClusterToProto(&status), text: clusterText(&status, partitions)}, err
		})
	cmd.Long = `Show who lives and who owns what, as the store has it. Any node can be asked. STATE is where a node stands:
fit (it gets a share of the partitions), proving (it is new, and has not shown yet that it can claim and commit), unfit (it fails
to: others own its share until it can), drained, clock (its clock is off), or leaving. SKEW is how far its clock is ahead of the
store's, as it measured last.`
	cmd.Flags().BoolVar(&partitions, "partitions", false,
		"show each partition too: its owner, epoch, and until when the owner's lease goes")
	return cmd
}

// clusterText describes a cluster for people.
func clusterText(status *carillon.ClusterStatus, partitions bool) string {
	var b strings.Builder
	b.WriteString(table(nodeHeading, status.Nodes, nodeRow))
	for _, n := range status.Nodes {
		if n.Reason != "" {
			fmt.Fprintf(&b, "Node %s is %s: %s.\n", n.ID, n.State, n.Reason)
		}
	}
	writeOrphans(&b, status)
	for _, w := range status.Warnings {
		fmt.Fprintf(&b, "Warning: %s.\n", w)
	}
	if partitions {
		b.WriteString("\n" + table([]string{"PARTITION", "OWNER", "EPOCH", "LEASE UNTIL"},
			status.Partitions, partitionRow))
	}
	return b.String()
}

var nodeHeading = []string{"NODE", "GRPC", "HTTP", "SIDECARS", "PARTITIONS", "STATE", "SKEW"}

func nodeRow(n *carillon.Node) []string {
	skew := "-"
	if n.SkewKnown {
		skew = fmt.Sprintf("%+.3fs", n.Skew.Round(time.Millisecond).Seconds()) // avoids "-0.000s"
	}
	return []string{n.ID, dash(n.Address), dash(n.HTTP), dash(n.Sidecars), strconv.Itoa(n.Owns), stateOf(n),
		skew}
}

// stateOf returns a node's state. For a node of a version without states it is drained or nothing.
func stateOf(n *carillon.Node) string {
	switch {
	case n.State != carillon.NodeUnknown:
		return string(n.State)
	case n.Draining:
		return string(carillon.NodeDrained)
	}
	return "-"
}

func partitionRow(p *carillon.PartitionOwner) []string {
	return []string{strconv.Itoa(p.Partition), dash(p.Node), strconv.FormatUint(p.Epoch, 10),
		dash(moment(p.Until))}
}

// writeOrphans writes how many partitions have no working owner: those without an owner, and those of nodes
// that are gone, which others take over when the leases have ended.
func writeOrphans(w io.Writer, status *carillon.ClusterStatus) {
	living := map[string]bool{"": true}
	for _, n := range status.Nodes {
		living[n.ID] = true
	}
	free, gone := 0, map[string]int{}
	for _, p := range status.Partitions {
		switch {
		case p.Node == "":
			free++
		case !living[p.Node]:
			gone[p.Node]++
		}
	}
	if free > 0 {
		fmt.Fprintf(w, "%s no owner.\n", countOf(free))
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		fmt.Fprintf(w, "%s an owner that is gone, %s: others take over when its lease has ended.\n",
			countOf(gone[id]), id)
	}
}

// countOf returns a number of partitions with its verb.
func countOf(n int) string {
	if n == 1 {
		return "1 partition has"
	}
	return strconv.Itoa(n) + " partitions have"
}

// clusterDrain holds the flags of `carillon cluster drain`.
type clusterDrain struct {
	connection
	follow bool
}

// newClusterDrain returns the command `carillon cluster drain`.
func newClusterDrain(a app) *cobra.Command {
	var d clusterDrain
	cmd := d.command(a, "drain NODE", "Have a node hand its partitions over to the others", d.drain)
	cmd.ValidArgsFunction = d.first(d.nodeIDs)
	cmd.Long = `Have a living node hand its partitions over to the others. It owns none until it starts again or carillon cluster
rebalance is called, and goes on to take calls and workers. Runs that its workers have go on. Any node can be asked. A
node is refused whose partitions no other could take. A node that is merely to be restarted need not be drained: it
hands over when it is told to end.`
	cmd.Example = `carillon cluster drain node-2 --follow`
	cmd.Flags().BoolVar(&d.follow, "follow", false,
		"stay until it owns nothing, for as long as --wait says; exit code 1 if it still does")
	return cmd
}

func (d *clusterDrain) drain(ctx context.Context, node *client.Client, words []string) (answer, error) {
	if err := node.DrainNode(ctx, words[0]); err != nil {
		return answer{}, err
	}
	text := "node %s hands its partitions over; carillon cluster status shows how far it is\n"
	if d.follow {
		if err := emptied(ctx, node, words[0]); err != nil {
			return answer{}, err
		}
		text = "node %s owns nothing\n"
	}
	return answer{message: &pb.DrainNodeResponse{}, text: fmt.Sprintf(text, words[0])}, nil
}

// emptied waits until the node owns nothing or ctx ends. A node that is gone owns nothing once it is listed
// as no partition's owner.
func emptied(ctx context.Context, node carillon.Cluster, id string) error {
	left := -1
	for {
		status, err := node.ClusterStatus(ctx)
		if ctx.Err() != nil {
			return carillon.Errorf(carillon.DeadlineExceeded, "",
				"node %s goes on handing over%s; look with carillon cluster status",
				id, stillOwns(left))
		}
		if err != nil {
			return err
		}
		left = 0
		for _, p := range status.Partitions {
			if p.Node == id {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
		}
	}
}

// stillOwns describes how many partitions are left, if that is known.
func stillOwns(left int) string {
	if left < 0 {
		return ""
	}
	return fmt.Sprintf(", it still owns %d", left)
}

// newClusterRebalance returns the command `carillon cluster rebalance`.
func newClusterRebalance(a app) *cobra.Command {
	var c connection
	cmd := c.command(a, "rebalance", "End all drains and spread the partitions over the nodes",
		func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			return answer{message: &pb.RebalanceResponse{},
				text: "the nodes have been told; carillon cluster status shows how far they are\n"}, node.Rebalance(ctx)
		})
	cmd.Long = `End all drains, and have every node look at once who should own what. Nodes do so by themselves when one comes or
goes: this is for the end of a drain.`
	return cmd
}
