package kubens_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/kubens"
)

// nodes is a cluster of nodes with these names, or one that does not answer.
type nodes struct {
	carillon.Cluster
	names []string
}

func (n nodes) ClusterStatus(context.Context) (s carillon.ClusterStatus, err error) {
	for _, name := range n.names {
		s.Nodes = append(s.Nodes, carillon.Node{ID: name})
	}
	if n.names == nil {
		err = errors.New("the store does not answer")
	}
	return s, err
}

func TestTurn(t *testing.T) {
	three := []string{"s-0", "s-1", "s-2"}
	for _, c := range []struct {
		node  string
		names []string
		want  time.Duration
	}{
		{"s-0", three, 0}, {"s-1", three, 15 * time.Second}, {"s-2", three, 30 * time.Second},
		{"s-2", three[2:], 0}, {"not among them", three, 0}, {"s-1", nil, 0},
	} {
		if got := kubens.Turn(nodes{names: c.names}, c.node)(t.Context()); got != c.want {
			t.Errorf("%s of %q waits for %v, want %v", c.node, c.names, got, c.want)
		}
	}
}
