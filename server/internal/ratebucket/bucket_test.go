package ratebucket

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestABucketCountsExactly what comes in, however the time is cut, as rational numbers do.
func TestABucketCountsExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 101))
	for range 300 {
		rate := carillon.Rate{Count: 1 + rng.Int64N(1<<rng.IntN(20)), Period: time.Second + time.Duration(rng.Int64N(
			int64(carillon.MaxRatePeriod))), Burst: 1 + rng.Int64N(1000)}
		b := New(rate, 0)
		exact, burst := big.NewRat(rate.Burst, 1), big.NewRat(rate.Burst, 1)
		now := int64(0)
		for range 200 {
			if n, whole := 1+rng.IntN(5), int(b.level); n <= whole && rng.IntN(2) == 0 {
				b.Take(int64(n))
				exact.Sub(exact, big.NewRat(int64(n), 1))
			}
			at, ok := b.Next(1)
			if full := b.Full(); ok == full {
				t.Fatalf("%v: full %v, and a further token comes: %v", rate, full, ok)
			}
			if rng.IntN(2) == 0 && ok {
				before := *b
				if before.Fill(at-1, rate); before.level != b.level {
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
			b.Fill(now, rate)
			is := big.NewRat(int64(b.part), int64(rate.Period))
			if is.Add(is, big.NewRat(b.level, 1)).Cmp(exact) != 0 {
				t.Fatalf("%v: it has %v, want %v", rate, is, exact)
			}
		}
	}
}
