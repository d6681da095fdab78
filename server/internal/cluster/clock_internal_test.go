package cluster

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestSkewBoundsHold: whatever answers take, the true skew stays within the bounds, which are never wider
// than those of the newest measurement.
func TestSkewBoundsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		truth, s, at := time.Duration(r.Int64N(int64(4*time.Second)))-2*time.Second, &skew{}, time.Duration(0)
		for range 30 {
			there, back := time.Duration(r.Int64N(int64(time.Second))), time.Duration(r.Int64N(int64(time.Second)))
			at += time.Second
			s = skew{low: truth - there, high: truth + back, at: at, known: true}.refine(s)
			if s.low > truth || s.high < truth || s.high-s.low > there+back {
				t.Fatalf("%v is not within %v and %v", truth, s.low, s.high)
			}
			if within := s.within(); s.off != (truth.Abs() > MaxSkew) &&
				(truth.Abs()-MaxSkew).Abs() > 2*within && at > time.Second {
				t.Fatalf("a skew of %v ± %v is off: %v", truth, within, s.off)
			}
		}
	}
}

// TestSkewOfAClockThatIsSet: a contradiction replaces what was known.
func TestSkewOfAClockThatIsSet(t *testing.T) {
	old := skew{low: -time.Millisecond, high: time.Millisecond, at: time.Second, known: true}.refine(&skew{})
	if s := (skew{low: 5 * time.Second, high: 6 * time.Second, at: 2 * time.Second,
		known: true}).refine(old); s.ahead() != 5500*time.Millisecond || !s.off {
		t.Errorf("ahead %v, off %v", s.ahead(), s.off)
	}
}
