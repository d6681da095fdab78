package permit

import (
	"math"
	"math/bits"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
)

// bucket is the bucket of tokens of a rate. Its tokens are those that may still be handed out and those that
// are allocated and, as far as the home knows, not used up. Only the use of a token makes room for another
// one. So the attempts that begin within a time W are no more than what was in the bucket at its beginning,
// at most the burst, and what has come in since, at most W·count/period. What the home learns late makes it
// believe that there are more tokens in the bucket than there are, hence lets fewer come in.
type bucket struct {
	rate  carillon.Rate // with its defaults; zero: not known yet
	level int64         // whole tokens
	part  uint64        // of the next one: below rate.Period; each ns adds rate.Count
	at    int64         // up to when that is counted, by the home's clock
}

// newBucket returns a full one.
func newBucket(rate carillon.Rate, now int64) *bucket {
	return &bucket{rate: rate, level: rate.Burst, at: now}
}

// maxSkew is how far the clocks of two nodes may be apart: each may be off by a second from the store's.
const maxSkew = 2 * time.Second

// loaded returns the bucket that an earlier owner has written. What came in since is counted when the rate is
// known, less by what the clocks of the two may differ.
func loaded(l *permitrecord.Level, now, wall int64) *bucket {
	since := max(0, wall-l.At-int64(maxSkew))
	return &bucket{rate: carillon.Rate{Period: l.Period}, level: l.Tokens, part: uint64(l.Part), at: now - since}
}

// fill counts what has come in until now. From now on it is by the given rate.
func (b *bucket) fill(now int64, rate carillon.Rate) {
	if b.rate.Count == 0 { // it was loaded
		b.scale(rate)
	}
	b.add(now)
	if b.rate != rate {
		b.scale(rate)
	}
	if b.level >= rate.Burst {
		b.level, b.part = rate.Burst, 0
	}
}

// scale changes the rate. The part of a token that is there stays the same part.
func (b *bucket) scale(rate carillon.Rate) {
	if was := uint64(b.rate.Period); was > 0 && b.part < was {
		hi, lo := bits.Mul64(b.part, uint64(rate.Period))
		b.part, _ = bits.Div64(hi, lo, was)
	} else {
		b.part = 0
	}
	b.rate = rate
}

func (b *bucket) add(now int64) {
	if now <= b.at {
		return
	}
	period := uint64(b.rate.Period)
	hi, lo := bits.Mul64(uint64(now-b.at), uint64(b.rate.Count))
	lo, carry := bits.Add64(lo, b.part, 0)
	b.at = now
	if hi += carry; hi >= period { // more than can be counted
		b.level, b.part = b.rate.Burst, 0
		return
	}
	tokens, part := bits.Div64(hi, lo, period)
	if tokens >= uint64(b.rate.Burst) || b.level+int64(tokens) >= b.rate.Burst {
		b.level, b.part = max(b.level, b.rate.Burst), 0
		return
	}
	b.level, b.part = b.level+int64(tokens), part
}

// take takes out n tokens that are used up.
func (b *bucket) take(n int) { b.level = max(0, b.level-int64(n)) }

// full reports whether no token can come in.
func (b *bucket) full() bool { return b.level >= b.rate.Burst }

// next returns when n further tokens will be in the bucket, if none is taken out; ok is false if it does not
// hold so many.
func (b *bucket) next(n int64) (at int64, ok bool) {
	if n <= 0 {
		return b.at, true
	}
	if b.rate.Count == 0 || b.level+n > b.rate.Burst {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(n), uint64(b.rate.Period))
	lo, borrow := bits.Sub64(lo, b.part, 0)
	if hi -= borrow; hi >= uint64(b.rate.Count) {
		return b.at + farOff, true
	}
	wait, rest := bits.Div64(hi, lo, uint64(b.rate.Count))
	if rest > 0 {
		wait++
	}
	return b.at + int64(min(wait, uint64(farOff))), true
}

// farOff is longer than any node lives.
const farOff = int64(math.MaxInt64 / 4)

// record returns what is to be known of the bucket after the home's term, at wall (UTC ns).
func (b *bucket) record(wall int64) permitrecord.Level {
	return permitrecord.Level{Tokens: b.level, Part: time.Duration(b.part), Period: b.rate.Period, At: wall}
}
