package deliveries_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

// TestTheCauseOfWhatCameAgain is the break that is closest to the node which had handed the attempt out.
func TestTheCauseOfWhatCameAgain(t *testing.T) {
	kill := func(node string, ms int) deliveries.Break {
		return deliveries.Break{Kind: deliveries.Kill, From: at(ms), To: at(ms), Ends: true, Node: node}
	}
	storeAway := deliveries.Break{Kind: "store restarts", From: at(4000), To: at(9000), Ends: true}
	held := deliveries.Break{Kind: "cut off from peers", From: at(4000), To: at(9000), Holds: true}
	for name, c := range map[string]struct {
		breaks []deliveries.Break
		want   string
	}{
		"nothing":                       {nil, "nothing was wrong"},
		"what ends no term":             {[]deliveries.Break{held}, "nothing was wrong"},
		"a kill long before":            {[]deliveries.Break{kill("a", 4000)}, "nothing was wrong"},
		"a kill after it came again":    {[]deliveries.Break{kill("a", 6001)}, "nothing was wrong"},
		"its own node":                  {[]deliveries.Break{storeAway, kill("b", 5500), kill("a", 5000)}, "kill"},
		"another node, and the store":   {[]deliveries.Break{kill("b", 5500), storeAway}, "store restarts"},
		"another node alone is no more": {[]deliveries.Break{kill("b", 5500)}, "kill of another node"},
	} {
		t.Run(name, func(t *testing.T) {
			a := truth()
			a.Breaks = c.breaks
			a.Seen[beforeKill].Node, a.Seen[afterKill].Node = "a", "b"
			again := deliveries.CameAgain(a.Ledger, a.History)
			if len(again) != 1 {
				t.Fatalf("%d came again, want the one that was in flight: %v", len(again), again)
			}
			if got := again[0].Cause(); got != c.want {
				t.Errorf("its cause is %q, want %q", got, c.want)
			}
		})
	}
}
