package chaos_test

import (
	"testing"
	"time"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/store"
)

// TestTheNodeOfADelivery is the last that had claimed its partition, unless a claim may have come in between.
func TestTheNodeOfADelivery(t *testing.T) {
	claim := func(partition, from, to int, node string) checker.Claim {
		return checker.Claim{Partition: partition, Node: node, Invoke: at(from), Return: at(to)}
	}
	claims := []checker.Claim{claim(3, 0, 20, "a"), claim(4, 100, 120, "b"), claim(3, 500, 520, "c")}
	run := store.RunID{Partition: 3, Cause: sched.CauseSchedule}.String()
	for _, c := range []struct {
		name    string
		claims  []checker.Claim
		started int
		want    string
	}{
		{"one node only", nil, 50, ""},
		{"before any claim", claims, -5, "unknown, of T"},
		{"of the first", claims, 200, "a"},
		{"of the second", claims, 600, "c"},
		{"of either", claims, 510, "unknown, of T"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := deliveries.Delivery{Run: run, Token: "T", Started: at(c.started),
				At: at(c.started).Add(time.Millisecond)}
			if got := chaos.NodeOf(c.claims, &d); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
			if d.At, d.Started = d.Started, (time.Time{}); chaos.NodeOf(c.claims, &d) != c.want {
				t.Errorf("by when it came it is %q, want %q", chaos.NodeOf(c.claims, &d), c.want)
			}
		})
	}
}
