package sim_test

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/internal/sim"
)

var hours = flag.Float64("hours", 0, "how many simulated hours TestSoak lasts; 0 = a quarter of one, 2 minutes with -short")

// TestSoak lives through a day of load, or a short one, and ends as it began: nothing lost, early or twice, and no growth.
func TestSoak(t *testing.T) {
	lasts := 15 * time.Minute
	switch {
	case *hours > 0:
		lasts = time.Duration(*hours * float64(time.Hour))
	case testing.Short():
		lasts = 2 * time.Minute
	}
	began := time.Now()
	var r sim.SoakResult
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = sim.Soak(sim.SoakOptions{Seed: 1, Lasts: lasts, Rate: 116, Peak: 1000, Keep: 2 * time.Minute, Logf: t.Logf}); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%v simulated in %v: %d jobs, %v each, latest %v", lasts, time.Since(began).Round(time.Second), r.Jobs,
		time.Since(began)/time.Duration(r.Jobs), r.Latest)
	if r.Early+r.Twice+r.Lost > 0 {
		t.Errorf("%d early, %d twice, %d lost", r.Early, r.Twice, r.Lost)
	}
	if r.Latest > time.Second {
		t.Errorf("a run began %v late", r.Latest)
	}
	if r.Records > 0 || r.After.Resident > 0 || r.After.Left > 0 {
		t.Errorf("%d records are left, %d jobs in memory, %d not done", r.Records, r.After.Resident, r.After.Left)
	}
	if r.After.Goroutines > r.Before.Goroutines {
		t.Errorf("%d goroutines, %d before", r.After.Goroutines, r.Before.Goroutines)
	}
	// The bitmap has a bit for each job, and Go's maps keep the room that they had at the peak.
	if allowed := r.Before.Heap + 32<<20 + uint64(r.Jobs)/4; r.After.Heap > allowed {
		t.Errorf("%d bytes of heap at the end, %d before", r.After.Heap, r.Before.Heap)
	}
	if slope, level := growth(r.Samples, lasts); slope > 0.1*level+float64(4<<20) {
		t.Errorf("the heap grows by %.0f bytes over the run, from %.0f", slope, level)
	}
}

// growth is the least-squares slope of the heap over the whole run, and its mean, of the time from a while after the peak: at
// the peak it makes a step, because Go's maps keep the room that they had. A short run has too few samples and shows none.
func growth(samples []sim.Sample, lasts time.Duration) (slope, mean float64) {
	var n, x, y, xx, xy float64
	for _, s := range samples {
		if s.At < lasts/2+15*time.Minute {
			continue
		}
		at, heap := s.At.Seconds()/lasts.Seconds(), float64(s.Heap)
		n, x, y, xx, xy = n+1, x+at, y+heap, xx+at*at, xy+at*heap
	}
	if n < 4 || n*xx == x*x {
		return 0, y / max(n, 1)
	}
	return (n*xy - x*y) / (n*xx - x*x), y / n
}
