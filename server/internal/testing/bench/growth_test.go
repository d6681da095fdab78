package bench

import (
	"context"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// within is a connection to a node in this process.
type within struct{ carillon.Scheduler }

func (within) Close() error { return nil }

func TestGrowth(t *testing.T) {
	var started []int
	g := Growth{Existing: []int{300}, Partitions: []int{3}, Puts: 100, Rate: 100, For: 100 * time.Millisecond,
		Start: func(ctx context.Context, partitions int) (Node, func() error, error) {
			started = append(started, partitions)
			node, err := server.Start(ctx, server.Config{Store: "memory:", Partitions: partitions})
			if err != nil {
				return Node{}, nil, err
			}
			stop := func() error { return node.Close(context.Background()) }
			return Node{Throwaway: true, Connect: func() (Conn, error) { return within{node.Scheduler()}, nil }}, stop,
				nil
		}}
	tables, err := g.Run(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 2 || tables[0].Axis != "jobs stored" || len(tables[1].Points) != 1 || len(started) != 2 ||
		started[1] != 3 {
		t.Errorf("tables %+v of nodes with partitions %v", tables, started)
	}
	for _, table := range tables {
		for _, p := range table.Points {
			if !p.Put.OK() || !p.Fire.OK() || p.Put.Operations != 100 || p.Fire.Operations != 10 {
				t.Errorf("%s %d: %+v", table.Axis, p.Value, p)
			}
		}
	}
}

func TestBatchesFitIntoAMessage(t *testing.T) {
	for payload, want := range map[int]int{0: 256, 64: 256, 64 << 10: 32, 1 << 20: 2, 8 << 20: 1} {
		if got := batchOf(256, payload); got != want {
			t.Errorf("%d jobs of %d bytes, want %d", got, payload, want)
		}
	}
}

func TestGoalsStandInOrder(t *testing.T) {
	goals := Goals()
	if first, last := goals[0].ID, goals[len(goals)-1].ID; first != "P1" || last != "P12" {
		t.Errorf("from %s to %s", first, last)
	}
}
