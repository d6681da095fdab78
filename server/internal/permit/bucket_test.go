package permit

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
)

// TestABucketCountsExactly what comes in, however the time is cut, as rational numbers do.
func TestABucketCountsExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 101))
	for range 300 {
		rate := carillon.Rate{Count: 1 + rng.Int64N(1<<rng.IntN(20)), Period: time.Second + time.Duration(rng.Int64N(
			int64(carillon.MaxRatePeriod))), Burst: 1 + rng.Int64N(1000)}
		b := newBucket(rate, 0)
		exact, burst := big.NewRat(rate.Burst, 1), big.NewRat(rate.Burst, 1)
		now := int64(0)
		for range 200 {
			if n, whole := 1+rng.IntN(5), int(b.level); n <= whole && rng.IntN(2) == 0 {
				b.take(n)
				exact.Sub(exact, big.NewRat(int64(n), 1))
			}
			at, ok := b.next(1)
			if full := b.full(); ok == full {
				t.Fatalf("%v: full %v, and a further token comes: %v", rate, full, ok)
			}
			if rng.IntN(2) == 0 && ok {
				before := *b
				if before.fill(at-1, rate); before.level != b.level {
					t.Fatalf("%v: a token came before %d", rate, at)
				}
			} else {
				at = now + rng.Int64N(1<<rng.IntN(45))
			}
			exact.Add(exact, big.NewRat(1, 1).Mul(big.NewRat(at-now, int64(rate.Period)), big.NewRat(rate.Count, 1)))
			if exact.Cmp(burst) >= 0 {
				exact.Set(burst)
			}
			now = at
			b.fill(now, rate)
			is := big.NewRat(int64(b.part), int64(rate.Period))
			if is.Add(is, big.NewRat(b.level, 1)).Cmp(exact) != 0 {
				t.Fatalf("%v: it has %v, want %v", rate, is, exact)
			}
		}
	}
}

// TestALevelIsTakenOver: what came in since it was written counts, less by what clocks may differ.
func TestALevelIsTakenOver(t *testing.T) {
	rate := carillon.Rate{Count: 1, Period: time.Minute, Burst: 10}
	b := newBucket(rate, 0)
	b.take(10)
	b.fill(int64(90*time.Second), rate)
	l := b.record(int64(time.Hour))
	l.Limit.Key = "\x02k"
	r := l.Record()
	read, ok := permitrecord.ParseLevel(&r)
	if !ok || read != l {
		t.Fatalf("%+v was read as %+v", l, read)
	}
	const boot = int64(7)
	for after, want := range map[time.Duration]int64{0: 1, 32*time.Second - 1: 1, 32 * time.Second: 2, 92 * time.Second: 3,
		time.Hour: 10, -time.Hour: 1} {
		again := loaded(&read, boot, int64(time.Hour+after))
		if again.fill(boot, rate); again.level != want {
			t.Errorf("%v later it has %d, want %d", after, again.level, want)
		}
	}
	again := loaded(&read, boot, int64(time.Hour))
	again.fill(boot, carillon.Rate{Count: 1, Period: time.Hour, Burst: 10})
	if at, ok := again.next(1); !ok || at != boot+int64(30*time.Minute) {
		t.Errorf("half a token of another rate is full at %d, %v", at, ok)
	}
}
