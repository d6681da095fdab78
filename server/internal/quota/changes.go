package quota

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/ratebucket"
)

// Hold is how long a node keeps changes that it has taken and not used.
const Hold = 100 * time.Millisecond

// TakeChanges takes n changes out of the bucket of a rate, which has its defaults, and up to more besides: at
// most a tenth of what is left. If there are fewer than n, it takes none, and returns after how long there
// will be enough.
func TakeChanges(
	b *ratebucket.Bucket, r carillon.Rate, n, more, now int64,
) (taken int64, after time.Duration) {
	b.Fill(now, r)
	if left := b.Level() - n; left >= 0 {
		taken = n + min(more, left/10)
		b.Take(taken)
		return taken, 0
	}
	at, ok := b.Next(n - b.Level())
	if !ok { // it is more than the burst: the rate has changed, and the node has not heard of it
		return 0, Hold
	}
	return 0, time.Duration(max(1, at-now))
}

// Share returns how many changes beyond those that it needs a node asks for: what the rate brings in half of
// [Hold].
func Share(r carillon.Rate) int64 {
	r = r.WithDefaults()
	return int64(float64(r.Count) * float64(Hold/2) / float64(r.Period))
}
