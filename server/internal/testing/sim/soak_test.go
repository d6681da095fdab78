package sim_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

var hours = flag.Float64("hours", 0, "how many simulated hours TestSoak lasts; 0 = a quarter of one, 2 minutes with -short")

// TestSoak lives through a day of load, or a short one, and ends as it began: nothing lost, early or twice,
// and no growth.
func TestSoak(t *testing.T) {
	lasts := 15 * time.Minute
	switch {
	case *hours > 0:
		lasts = time.Duration(*hours * float64(time.Hour))
	case testing.Short():
		lasts = 30 * time.Second
	}
	began := time.Now()
	var r sim.SoakResult
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = sim.Soak(sim.SoakOptions{Seed: 1, Lasts: lasts, Rate: 116, Peak: 1000, Keep: soakKeep,
			Logf: t.Logf}); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%v simulated in %v: %d jobs, %v each, latest %v", lasts,
		time.Since(began).Round(time.Second), r.Jobs, time.Since(began)/time.Duration(r.Jobs), r.Latest)
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
	if lasts < 15*time.Minute {
		return // it ends before the heap has settled after the peak
	}
	grows, err := growing(r.Samples, lasts)
	if err != nil {
		t.Error(err)
	}
	t.Log(grows)
}

// TestGrowthIsSeen: a heap that grows by 64 bytes a job is told from one that only wavers, also in the
// shortest soak that judges it.
func TestGrowthIsSeen(t *testing.T) {
	const lasts = 15 * time.Minute
	for _, c := range []struct {
		leak float64 // bytes a second
		bad  bool
	}{{0, false}, {64 * 116, true}, {1024 * 116, true}} {
		var samples []sim.Sample
		for i := range 48 {
			at := time.Duration(i+1) * lasts / 48
			waver := float64(i%3) * (100 << 10)
			samples = append(samples, sim.Sample{At: at, Heap: 14<<20 + uint64(waver+c.leak*at.Seconds())})
		}
		if grows, err := growing(samples, lasts); (err != nil) != c.bad {
			t.Errorf("%.0f bytes a second: %s, %v", c.leak, grows, err)
		}
	}
	if _, err := growing(nil, lasts); err == nil {
		t.Error("no samples show no growth")
	}
}

// growing is how the heap moves, and an error if it grows.
func growing(samples []sim.Sample, lasts time.Duration) (what string, err error) {
	slope, level, n := growth(samples, lasts)
	what = fmt.Sprintf("the heap moves by %.0f bytes over the run, around %.0f, by %d samples", slope, level, n)
	switch {
	case n < 8:
		return what, fmt.Errorf("too few samples: %s", what)
	case slope > 0.1*level+float64(4<<20):
		return what, errors.New(what)
	}
	return what, nil
}

// soakKeep is for how long a soak keeps histories.
const soakKeep = 2 * time.Minute

// growth is the least-squares slope of the heap over the whole run, its mean, and of how many samples, from a
// while after the peak in the middle: there the heap makes a step, because Go's maps keep the room that they
// had, and what the peak left in the history has to end.
func growth(samples []sim.Sample, lasts time.Duration) (slope, mean float64, count int) {
	var n, x, y, xx, xy float64
	settled := lasts/2 + time.Minute + min(lasts/10, 15*time.Minute) + soakKeep
	for _, s := range samples {
		if s.At < settled {
			continue
		}
		at, heap := s.At.Seconds()/lasts.Seconds(), float64(s.Heap)
		n, x, y, xx, xy = n+1, x+at, y+heap, xx+at*at, xy+at*heap
	}
	if n*xx == x*x {
		return 0, y / max(n, 1), int(n)
	}
	return (n*xy - x*y) / (n*xx - x*x), y / n, int(n)
}
