package serverclock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store/serverclock"
)

// TestBoundsHoldTheClock: whatever a server's clock is and however precise its dates are, the bounds hold it
// after each answer, and the store's clock is off by no more than they are apart.
func TestBoundsHoldTheClock(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		now := time.Date(2026, 1, 1, 0, 0, 0, 123_456_789, time.UTC)
		c := serverclock.New(func() time.Time { return now })
		if c.Known() || c.Ahead() != 0 {
			t.Fatal("a clock that nobody has told anything is corrected")
		}
		ahead := time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second
		precision := []time.Duration{time.Millisecond, time.Second}[r.IntN(2)]
		for range 20 {
			asked := now
			date := asked.Add(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
			now = date.Add(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
			c.Answer("s", asked, now, date.Add(ahead).Truncate(precision), precision)
			low, high, known := c.Bounds("s")
			if !known || low > ahead || high < ahead {
				t.Fatalf("seed %d: the clock is ahead by %v, and the bounds are %v and %v", seed, ahead, low, high)
			}
			if off := (c.Ahead() - ahead).Abs(); off > high-low {
				t.Fatalf("seed %d: off by %v, and the bounds are %v and %v", seed, off, low, high)
			}
			now = now.Add(time.Duration(r.Int64N(int64(time.Second))))
		}
	}
}
