package etcd_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store/etcd"
	"github.com/carillonhq/carillon/server/store/serverclock"
)

// drawnClock is a clock whose members answer as fast as is drawn, with dates that are cut to the second.
type drawnClock struct {
	*serverclock.Clock
	*rand.Rand
	at time.Time // by this node's clock
}

func newDrawnClock(seed uint64) *drawnClock {
	d := &drawnClock{Rand: rand.New(rand.NewPCG(seed, 1)), at: time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)}
	d.Clock = serverclock.New(func() time.Time { return d.at })
	return d
}

// ask asks a member whose clock is ahead by so much, which takes some 0.1 to 2 ms, sometimes 300.
func (d *drawnClock) ask(endpoint string, ahead time.Duration) {
	there, back := d.within(), d.within()
	asked := d.at
	date := asked.Add(there + ahead).Truncate(time.Second)
	d.at = asked.Add(there + back)
	d.Answer(endpoint, asked, d.at, date, time.Second)
}

func (d *drawnClock) within() time.Duration {
	if d.IntN(10) == 0 {
		return time.Duration(d.Int64N(int64(300 * time.Millisecond)))
	}
	return 50*time.Microsecond + time.Duration(d.Int64N(int64(time.Millisecond)))
}

// TestBoundsHoldTheClock: whatever a member's clock is, the bounds hold it after each answer, and are close
// after some seconds.
func TestBoundsHoldTheClock(t *testing.T) {
	for seed := range uint64(100) {
		d := newDrawnClock(seed)
		ahead := time.Duration(d.Int64N(int64(20*time.Second))) - 10*time.Second
		begun := d.at
		d.ask("m", ahead)
		for d.at.Sub(begun) < 20*time.Second {
			d.at = d.at.Add(etcd.NextDate(d.Clock, "m"))
			d.ask("m", ahead)
			if low, high, _ := d.Bounds("m"); low > ahead || high < ahead {
				t.Fatalf("seed %d: the clock is ahead by %v, and the bounds are %v and %v", seed, ahead, low, high)
			}
		}
		if low, high, _ := d.Bounds("m"); high-low > 20*time.Millisecond {
			t.Errorf("seed %d: after %v the bounds are %v and %v", seed, d.at.Sub(begun), low, high)
		}
		if off := (d.Ahead() - ahead).Abs(); off > 20*time.Millisecond {
			t.Errorf("seed %d: the store's clock is off by %v", seed, off)
		}
	}
}

// TestAClockThatIsSetIsFollowed: bounds that are contradicted are given up.
func TestAClockThatIsSetIsFollowed(t *testing.T) {
	d := newDrawnClock(1)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute} {
		for range 40 {
			d.at = d.at.Add(etcd.NextDate(d.Clock, "m"))
			d.ask("m", ahead)
		}
		if off := (d.Ahead() - ahead).Abs(); off > 20*time.Millisecond {
			t.Errorf("a clock that is ahead by %v is followed with %v", ahead, d.Ahead())
		}
	}
}

// TestOneWrongClockDoesNotMatter: of three members the median counts; who agrees with this node's clock, as
// far as can be told, does not correct it.
func TestOneWrongClockDoesNotMatter(t *testing.T) {
	for wrong := range 3 {
		for _, by := range []time.Duration{-time.Hour, time.Hour} {
			d := newDrawnClock(uint64(wrong))
			for range 20 {
				for m := range 3 {
					ahead := time.Duration(0)
					if m == wrong {
						ahead = by
					}
					d.ask(fmt.Sprint(m), ahead)
				}
				d.at = d.at.Add(etcd.NextDate(d.Clock, "0"))
			}
			if d.Ahead() != 0 {
				t.Errorf("member %d is off by %v, and the store's clock by %v", wrong, by, d.Ahead())
			}
		}
	}
}
