package engine

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestFigures(t *testing.T) {
	var f figures
	f.show(partition.Stats{Resident: 2})
	first := f.stats.Load()
	if f.show(partition.Stats{Resident: 2}); f.stats.Load() != first {
		t.Error("published again without a change")
	}
	q := delivery.Queue{Kind: "worker", Address: "a"}
	f.showWaiting([]delivery.Waiting{{Queue: q, N: 3}}, func(delivery.Queue) int64 { return 7 },
		[]partition.InLine{{Queue: q, N: 4, Oldest: 5}})
	if d := *f.waiting.Load(); len(d) != 2 || d[0] != (depth{q, 3, 0, 7}) || d[1] != (depth{q, 0, 4, 5}) {
		t.Errorf("waiting: %v", d)
	}
	f.clear()
	if f.waiting.Load() != nil || *f.stats.Load() != (partition.Stats{}) {
		t.Error("there is no machine, and figures are left")
	}
}
