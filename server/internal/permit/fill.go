package permit

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/internal/ratebucket"
	"github.com/carillonhq/carillon/server/store"
)

// A rate limits how often attempts may begin. Its home allocates permits as it does those of any limit, but
// their number is what is in a bucket: it grows with time, and a permit that is used does not come back. The
// pool says how many it has used up since its term began, a number that only grows, and what it returns
// unused; both may be lost, late or doubled. What a partition had when its owner was replaced counts as used
// up, since nobody will use it any more. See docs/decisions/0101.
//
// The tokens of the bucket are those that may still be handed out and those that are allocated and, as far as
// the home knows, not used up. Only the use of a token makes room for another one. So the attempts that begin
// within a time W are no more than what was in the bucket at its beginning, at most the burst, and what has
// come in since, at most W·count/period. What the home learns late makes it believe that there are more
// tokens in the bucket than there are, hence lets fewer come in.

// filling is the bucket of an account, and when the home looks at it next.
type filling struct {
	account *account
	bucket  *ratebucket.Bucket // nil: nothing was taken from it, so it is full
	wake    int64
	at      int32 // index in Home.filling; -1: nobody waits
	noted   bool  // the account is in Home.levels
	written bool  // the store has a record of the level
}

// Before orders fillings by wake, then key.
func (f *filling) Before(o *filling) bool {
	if f.wake != o.wake {
		return f.wake < o.wake
	}
	return f.account.key.Compare(o.account.key) < 0
}

// At is where the filling stands.
func (f *filling) At() *int32 { return &f.at }

const (
	// refillEvery is how often a home hands out permits of a rate that come in faster than that: each time
	// is a batch.
	refillEvery = 5 * time.Millisecond
	// settled is how long after an account was made it is certain whether its rate is set.
	settled = time.Minute
)

// Tick tells the time, by a clock that only goes forward and by UTC, in ns, and serves the rates whose
// buckets have more in them.
func (h *Home) Tick(now, wall int64) {
	h.now, h.wall = max(h.now, now), wall
	for len(h.filling) > 0 && h.filling[0].wake <= h.now {
		h.serve(h.filling[0].account)
	}
}

// NextWake returns when Tick has something to do without further input, by its first clock; ok is false if it
// never has.
func (h *Home) NextWake() (at int64, ok bool) {
	if len(h.filling) == 0 {
		return 0, false
	}
	return h.filling[0].wake, true
}

// inBucket returns how many tokens are in an account's bucket, with those that are allocated.
func (h *Home) inBucket(a *account) (n int, limited bool) {
	rate, limited := h.rateOf(a.key)
	if !limited {
		return 0, false
	}
	if a.fills.bucket == nil {
		a.fills.bucket = ratebucket.New(rate, h.now)
	}
	a.fills.bucket.Fill(h.now, rate)
	return int(a.fills.bucket.Level()), true
}

// schedule sets when the home looks at an account again, if somebody waits.
func (h *Home) schedule(a *account) {
	f := a.fills
	h.filling.Remove(f)
	if _, limited := h.inBucket(a); !limited || len(a.waiting) == 0 {
		return
	}
	rate := f.bucket.Rate()
	some := int64(refillEvery) * rate.Count / max(1, int64(rate.Period))
	some = max(1, min(some, reserveAtOnce, rate.Burst-int64(a.sum)))
	if at, ok := f.bucket.Next(int64(a.sum) + some - f.bucket.Level()); ok {
		f.wake = max(at, h.now+1)
		h.filling.Add(f)
	}
}

// noteSpent notes how many permits a partition has used up under its term.
func (h *Home) noteSpent(g *allocation, spent uint64) {
	if g.account.fills == nil || spent <= g.spent {
		return
	}
	n := int(min(spent-g.spent, uint64(g.n)))
	g.spent = spent
	h.useUp(g, n)
}

// useUp takes permits that a partition has used up, or that nobody will use, out of the bucket.
func (h *Home) useUp(g *allocation, n int) {
	if n == 0 {
		return
	}
	h.inBucket(g.account) // up to now they were in it
	if b := g.account.fills.bucket; b != nil {
		b.Take(int64(n))
	}
	h.set(g, g.n-n)
}

// noteLevel notes that the level of an account is to be written, if it has one.
func (h *Home) noteLevel(a *account) {
	if f := a.fills; f != nil && !f.noted {
		f.noted = true
		h.levels = append(h.levels, a)
	}
}

// appendLevels appends the records of the levels that have changed.
func (h *Home) appendLevels(small []store.MetaRecord) []store.MetaRecord {
	for _, a := range h.levels {
		f := a.fills
		f.noted = false
		h.inBucket(a) // up to now
		gone := h.accounts[a.key] != a
		switch {
		case !gone && f.bucket != nil && f.bucket.Rate().Period > 0:
			// Also if the rate is not known yet: then it is what was loaded, without what is used up since.
			l := levelOf(f.bucket, h.wall-h.now)
			l.Limit = a.key
			small = append(small, l.Record())
			f.written = true
		case gone && f.written:
			small = append(small, store.MetaRecord{Kind: store.KindAllocation,
				Key: permitrecord.Level{Limit: a.key}.Record().Key})
			f.written = false
		}
	}
	h.levels = h.levels[:0]
	return small
}

// maxSkew is how far the clocks of two nodes may be apart: each may be off by a second from the store's.
const maxSkew = 2 * time.Second

// loaded returns the bucket that an earlier owner has written. What came in since is counted when the rate is
// known, less by what the clocks of the two may differ.
func loaded(l *permitrecord.Level, now, wall int64) *ratebucket.Bucket {
	since := max(0, wall-l.At-int64(maxSkew))
	return ratebucket.Saved(l.Tokens, l.Part, l.Period, now-since)
}

// levelOf returns what the next owner is to know of a bucket; UTC is so far ahead of its clock, in ns.
func levelOf(b *ratebucket.Bucket, ahead int64) (l permitrecord.Level) {
	l.Tokens, l.Part, l.Period, l.At = b.Saves()
	l.At += ahead
	return l
}

// loadLevel takes over the level of a bucket.
func (h *Home) loadLevel(l *permitrecord.Level) {
	f := h.account(l.Limit).fills
	f.bucket, f.written = loaded(l, h.now, h.wall), true
}

// forgets reports whether the account of a rate of which nothing is allocated can be forgotten: its bucket is
// full, or it is not limited any more. A record of it is removed.
func (h *Home) forgets(a *account) bool {
	_, limited := h.inBucket(a)
	switch {
	case limited && !a.fills.bucket.Full(), !limited && h.now-a.since < int64(settled):
		return false
	}
	h.filling.Remove(a.fills)
	if a.fills.written {
		h.noteLevel(a)
	}
	return true
}

// addNext adds when the next attempts of a rate may begin.
func (h *Home) addNext(s *message.Standing, a *account) {
	n, limited := h.inBucket(a)
	if !limited {
		return
	}
	b := a.fills.bucket
	at := h.now
	if n <= a.sum {
		at, limited = b.Next(int64(a.sum) + 1 - b.Level())
	}
	if limited {
		s.Next = h.wall + at - h.now
	}
	s.Every = time.Duration(int64(b.Rate().Period) / b.Rate().Count)
}
