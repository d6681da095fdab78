package telemetry

import (
	"fmt"
	"testing"
)

// TestRatesAreBoundedInNumber: all further ones share series, of which only those have permits whose home is here.
func TestRatesAreBoundedInNumber(t *testing.T) {
	var all []Rate
	for i := range maxLimits + 50 {
		r := Rate{Namespace: "n", Key: fmt.Sprintf("k%04d", i), Waiting: 3}
		if i%2 == 0 {
			r.Home, r.Left, r.Burst = true, 1, 2
		}
		all = append(all, r)
	}
	s := newLimits()
	if got := s.boundedRates(all[:maxLimits]); len(got) != maxLimits || got[maxLimits-1] != all[maxLimits-1] {
		t.Fatalf("%d of %d are shown", len(got), maxLimits)
	}
	got := s.boundedRates(all)
	want := Rate{Namespace: Other, Key: Other, Home: true, Left: 25, Burst: 50, Waiting: 150}
	if len(got) != maxLimits+1 || got[maxLimits] != want {
		t.Errorf("%d are shown, the others are %+v, want %+v", len(got), got[len(got)-1], want)
	}
}
