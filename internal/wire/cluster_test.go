package wire_test

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

func anyNode(t *rapid.T) carillon.Node {
	word := rapid.StringMatching(`[a-z0-9.:\[\]-]{0,20}`)
	n := carillon.Node{ID: word.Draw(t, "id"), Address: word.Draw(t, "address"), HTTP: word.Draw(t, "http"),
		Sidecars: word.Draw(t, "sidecars"),
		Draining: rapid.Bool().Draw(t, "draining"), Owns: rapid.IntRange(0, 1<<16).Draw(t,
			"owns"), SkewKnown: rapid.Bool().Draw(t, "known")}
	if n.SkewKnown {
		n.Skew = time.Duration(rapid.Int64().Draw(t, "skew"))
	}
	return n
}

func anyOwner(t *rapid.T) carillon.PartitionOwner {
	o := carillon.PartitionOwner{Partition: rapid.IntRange(0, 1<<16).Draw(t, "partition"),
		Epoch: rapid.Uint64().Draw(t, "epoch")}
	if rapid.Bool().Draw(t, "owned") {
		o.Node = rapid.StringMatching(`[a-z0-9-]{1,20}`).Draw(t, "node")
		o.Until = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
	}
	return o
}

// TestClusterCrosses: a cluster is the same after both conversions.
func TestClusterCrosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := carillon.ClusterStatus{
			Nodes: rapid.SliceOfN(rapid.Custom(anyNode), 0, 4).Draw(t, "nodes"),
			Warnings: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z ]{1,20}`), 1, 3,
				rapid.ID).Draw(t, "warnings"),
			Partitions: rapid.SliceOfN(rapid.Custom(anyOwner), 0, 4).Draw(t, "partitions"),
		}
		got, err := wire.ClusterFromProto(wire.ClusterToProto(&want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
		nodes, err := wire.NodesFromProto(wire.NodesToProto(want.Nodes))
		if err != nil || !reflect.DeepEqual(nodes, want.Nodes) {
			t.Errorf("nodes: got %+v, %v", nodes, err)
		}
	})
}

func TestSkewThatIsNone(t *testing.T) {
	skew := "much"
	_, err := wire.NodesFromProto([]*pb.Node{{Id: "a"}, {Skew: &skew}})
	if carillon.KindOf(err) != carillon.InvalidArgument {
		t.Errorf("got %v", err)
	}
}
