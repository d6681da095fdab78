// Package ratebucket counts the tokens of a rate, exactly: a bucket holds at most the burst, and is filled
// evenly. It has no I/O and no clock.
package ratebucket

import (
	"math"
	"math/bits"
	"time"

	"github.com/carillonhq/carillon"
)

// Bucket is a bucket of tokens. Times are ns of a clock that does not go back.
type Bucket struct {
	rate  carillon.Rate // with its defaults; zero: not known yet
	level int64         // whole tokens
	part  uint64        // of the next one: below rate.Period; each ns adds rate.Count
	at    int64         // up to when that is counted
}

// New returns a full one.
func New(rate carillon.Rate, now int64) *Bucket {
	return &Bucket{rate: rate, level: rate.Burst, at: now}
}

// Saved returns a bucket with what another one had ([Bucket.Saves]). What has come in since at is not counted
// yet. Its rate is known from Fill on.
func Saved(tokens int64, part, period time.Duration, at int64) *Bucket {
	return &Bucket{rate: carillon.Rate{Period: period}, level: tokens, part: uint64(part), at: at}
}

// Saves returns what [Saved] takes.
func (b *Bucket) Saves() (tokens int64, part, period time.Duration, at int64) {
	return b.level, time.Duration(b.part), b.rate.Period, b.at
}

// Rate returns the rate by which the bucket was filled; zero: that is not known yet.
func (b *Bucket) Rate() carillon.Rate { return b.rate }

// Level returns how many whole tokens the bucket had when it was filled.
func (b *Bucket) Level() int64 { return b.level }

// Fill counts what has come in until now. From now on it is by the given rate.
func (b *Bucket) Fill(now int64, rate carillon.Rate) {
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
func (b *Bucket) scale(rate carillon.Rate) {
	if was := uint64(b.rate.Period); was > 0 && b.part < was {
		hi, lo := bits.Mul64(b.part, uint64(rate.Period))
		b.part, _ = bits.Div64(hi, lo, was)
	} else {
		b.part = 0
	}
	b.rate = rate
}

func (b *Bucket) add(now int64) {
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

// Take takes out n tokens that are used up.
func (b *Bucket) Take(n int64) { b.level = max(0, b.level-n) }

// Full reports whether no token can come in.
func (b *Bucket) Full() bool { return b.level >= b.rate.Burst }

// Next returns when n further tokens will be in the bucket, if none is taken out; ok is false if it does not
// hold so many.
func (b *Bucket) Next(n int64) (at int64, ok bool) {
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
