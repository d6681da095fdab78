package quota

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/ratebucket"
)

// TestTakeChanges takes what was asked for or nothing, of what else was asked for a tenth of what is left, and
// says when there will be enough.
func TestTakeChanges(t *testing.T) {
	rate := carillon.Rate{Count: 10, Period: time.Second, Burst: 100}
	second := int64(time.Second)
	for _, c := range []struct {
		left, n, more int64
		taken         int64
		after         time.Duration
	}{
		{left: 100, n: 1, more: 0, taken: 1},
		{left: 100, n: 1, more: 5, taken: 6},
		{left: 100, n: 1, more: 50, taken: 10},
		{left: 100, n: 100, more: 50, taken: 100},
		{left: 10, n: 1, more: 50, taken: 1}, // a tenth of 9 is none
		{left: 0, n: 1, more: 50, after: 100 * time.Millisecond},
		{left: 5, n: 6, after: 100 * time.Millisecond},
		{left: 5, n: 100, after: 9500 * time.Millisecond},
		{left: 5, n: 101, after: Hold}, // by a larger burst that the home has not heard of
	} {
		b := ratebucket.New(rate, second)
		b.Take(100 - c.left)
		taken, after := TakeChanges(b, rate, c.n, c.more, second)
		if taken != c.taken || after != c.after {
			t.Errorf("of %d, %d and %d more: got %d, %v, want %d, %v", c.left, c.n, c.more, taken, after, c.taken,
				c.after)
		}
		if b.Level() != c.left-taken {
			t.Errorf("of %d, %d were taken, and %d are left", c.left, taken, b.Level())
		}
		if taken > 0 || c.n > rate.Burst {
			continue
		}
		if early, _ := TakeChanges(b, rate, c.n, 0, second+int64(after)-1); early != 0 {
			t.Errorf("%d were there before %v", early, after)
		}
		if then, _ := TakeChanges(b, rate, c.n, 0, second+int64(after)); then != c.n {
			t.Errorf("after %v there are %d, want %d", after, then, c.n)
		}
	}
}

// TestTakeChangesByAnotherRate goes by the rate that is in force now, for what is in the bucket as well.
func TestTakeChangesByAnotherRate(t *testing.T) {
	b := ratebucket.New(carillon.Rate{Count: 10, Period: time.Second, Burst: 100}, 0)
	slow := carillon.Rate{Count: 1, Period: time.Hour, Burst: 2}
	if taken, _ := TakeChanges(b, slow, 2, 50, 1); taken != 2 {
		t.Errorf("%d were taken", taken)
	}
	if taken, after := TakeChanges(b, slow, 1, 0, 1); taken != 0 || after != time.Hour {
		t.Errorf("%d were taken, the next one comes after %v", taken, after)
	}
}

// TestShare is what comes in within half the time that a node keeps changes.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		rate carillon.Rate
		want int64
	}{
		{carillon.Rate{Count: 1}, 0},
		{carillon.Rate{Count: 19}, 0},
		{carillon.Rate{Count: 20}, 1},
		{carillon.Rate{Count: 1000}, 50},
		{carillon.Rate{Count: 1000, Period: time.Minute}, 0},
		{carillon.Rate{Count: 1_000_000_000}, 50_000_000},
	} {
		if got := Share(c.rate); got != c.want {
			t.Errorf("of %v: %d, want %d", c.rate, got, c.want)
		}
	}
}
