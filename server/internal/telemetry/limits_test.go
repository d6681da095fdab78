package telemetry

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// limitsNamed are limits of 2 permits, of which 1 is handed out.
func limitsNamed(from, to int) (all []Limit) {
	for i := from; i < to; i++ {
		all = append(all, Limit{delivery.Limit{Namespace: "n", Key: fmt.Sprintf("k%04d", i)}, 1, 2})
	}
	return all
}

func TestLimitsAreBoundedInNumber(t *testing.T) {
	s := newLimits()
	if got := s.bounded(limitsNamed(100, 110)); len(got) != 10 {
		t.Fatalf("%d of 10 are shown", len(got))
	}
	got := s.bounded(limitsNamed(0, 300))
	shown := map[string]bool{}
	for _, l := range got[:len(got)-1] {
		shown[l.Key] = true
	}
	if len(shown) != maxLimits || !shown["k0105"] || !shown["k0000"] || shown["k0299"] {
		t.Errorf("%d are shown; one that was shown before: %v", len(shown), shown["k0105"])
	}
	if other := got[len(got)-1]; other.Namespace != Other || other.Key != Other || other.Held != 100 || other.Of != 200 {
		t.Errorf("the others: %+v", other)
	}
	if got := s.bounded(limitsNamed(290, 300)); len(got) != 10 || got[9].Key != "k0299" {
		t.Errorf("others have gone, and made no room: %+v", got)
	}
}
