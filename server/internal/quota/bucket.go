package quota

import (
	"time"

	"github.com/carillonhq/carillon"
)

// Hold is how long a node keeps changes that it has taken and not used.
const Hold = 100 * time.Millisecond

// Bucket is a token bucket: it fills evenly, up to the burst, and each change takes one token. Times are
// nanoseconds of a clock that does not go back.
type Bucket struct {
	rate   carillon.Rate
	tokens float64
	at     int64 // when tokens was right
}

// NewBucket returns a full bucket.
func NewBucket(r carillon.Rate, now int64) *Bucket {
	r = r.WithDefaults()
	return &Bucket{rate: r, tokens: float64(r.Burst), at: now}
}

// Set gives the bucket another rate. It holds no more than it did.
func (b *Bucket) Set(r carillon.Rate, now int64) {
	if r = r.WithDefaults(); r != b.rate {
		b.fill(now)
		b.rate, b.tokens = r, min(b.tokens, float64(r.Burst))
	}
}

func (b *Bucket) fill(now int64) {
	if now > b.at {
		b.tokens = min(float64(b.rate.Burst), b.tokens+float64(now-b.at)*b.perNano())
		b.at = now
	}
}

func (b *Bucket) perNano() float64 { return float64(b.rate.Count) / float64(b.rate.Period) }

// Take takes n tokens and up to more besides: at most a tenth of what is left. If there are fewer than n, it
// takes none and returns after how long there will be.
func (b *Bucket) Take(n, more, now int64) (taken int64, after time.Duration) {
	b.fill(now)
	if b.tokens < float64(n) {
		return 0, max(1, time.Duration((float64(n)-b.tokens)/b.perNano())+1)
	}
	taken = n + min(more, int64(b.tokens-float64(n))/10)
	b.tokens -= float64(taken)
	return taken, 0
}

// Share returns how many tokens beyond those that it needs a node asks for: what the rate brings in half of
// [Hold].
func Share(r carillon.Rate) int64 {
	r = r.WithDefaults()
	return int64(float64(r.Count) * float64(Hold/2) / float64(r.Period))
}
