package quota

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Ledger is the home's side of the quotas of one namespace, for one term of the home.
type Ledger struct {
	epoch uint64 // of the home's term
	sent  uint64 // number of the newest stamp
	parts []account
}

// account is what the home knows of a partition.
type account struct {
	known bool           // bound holds
	bound message.Amount // the partition has at most so much, whoever owns it
	used  message.Amount // as it said last
	stamp message.Stamp  // of the newest message that it was sent
}

// NewLedger returns the ledger of a home whose term has that epoch, which knows nothing yet.
func NewLedger(epoch uint64, partitions int) *Ledger {
	return &Ledger{epoch: epoch, parts: make([]account, partitions)}
}

// Most returns what quotas allow; what they do not bound is as much as there can be.
func Most(q *carillon.Quotas) message.Amount {
	most := message.Amount{Jobs: q.Jobs, Bytes: q.PayloadBytes}
	if most.Jobs == 0 {
		most.Jobs = unbounded
	}
	if most.Bytes == 0 {
		most.Bytes = unbounded
	}
	return most
}

// unbounded is more than there can be; sums of it do not overflow.
const unbounded = math.MaxInt64 / 4

// Known reports whether the bounds of all partitions are known. No room is given before.
func (l *Ledger) Known() bool {
	for i := range l.parts {
		if !l.parts[i].known {
			return false
		}
	}
	return true
}

// Used returns what the partitions have, as they said last.
func (l *Ledger) Used() (sum message.Amount) {
	for i := range l.parts {
		sum = sum.Plus(l.parts[i].used)
	}
	return sum
}

// Bounds returns what the partitions have at most.
func (l *Ledger) Bounds() (sum message.Amount) {
	for i := range l.parts {
		sum = sum.Plus(l.parts[i].bound)
	}
	return sum
}

// Next returns the stamp of a message that is about to be sent to a partition.
func (l *Ledger) Next(p int) message.Stamp {
	l.sent++
	l.parts[p].stamp = message.Stamp{Epoch: l.epoch, N: l.sent}
	return l.parts[p].stamp
}

// Told takes a partition's answer to a [message.CountUsage] with that stamp.
func (l *Ledger) Told(p int, stamp message.Stamp, u message.Usage) {
	a := &l.parts[p]
	if u.Counted && a.stamp == stamp {
		a.known, a.bound, a.used = true, u.Used.Plus(u.Room), u.Used
	}
}

// Forget forgets all bounds: the quotas were lifted, and jobs are put without room. What is on its way from
// before counts for nothing.
func (l *Ledger) Forget() {
	for p := range l.parts {
		l.parts[p] = account{}
		l.Next(p)
	}
}

// Ask answers a partition that wants room, where quotas allow most. If there is not enough for what it
// wants, ok is false and it gets nothing. It may get more, for puts that come next, while much is left.
func (l *Ledger) Ask(ask *message.AskRoom, most message.Amount) (room message.Room, ok bool) {
	if !l.Known() {
		return room, false
	}
	a := &l.parts[ask.Partition]
	if has := ask.Has; has.Counted && has.Stamp == a.stamp {
		a.bound, a.used = has.Used.Plus(has.Room), has.Used
	} else if has.Counted { // perhaps it put jobs without room, as it had not heard of the quotas
		a.bound = greatest(a.bound, has.Used)
	}
	left := most.Minus(l.Bounds())
	if !ask.Want.Fits(left) {
		return room, false
	}
	left = left.Minus(ask.Want)
	more := least(ask.More, left)
	give := ask.Want.Plus(more).Plus(spare(ask.Want, left.Minus(more), len(l.parts)))
	a.bound = a.bound.Plus(give)
	return message.Room{Stamp: l.Next(ask.Partition), Room: give}, true
}

func least(a, b message.Amount) message.Amount {
	return message.Amount{Jobs: min(a.Jobs, b.Jobs), Bytes: min(a.Bytes, b.Bytes)}
}

func greatest(a, b message.Amount) message.Amount {
	return message.Amount{Jobs: max(a.Jobs, b.Jobs), Bytes: max(a.Bytes, b.Bytes)}
}

// Most that a partition gets beyond what it asks for.
const (
	spareJobs  = 1 << 10
	spareBytes = 1 << 24
)

// spare returns what a partition gets beyond what it wants: a small part of what is left, so that the last of
// it does not lie idle in many partitions.
func spare(want, left message.Amount, partitions int) (a message.Amount) {
	part := 4 * int64(partitions)
	if want.Jobs > 0 {
		a.Jobs = min(left.Jobs/part, spareJobs)
	}
	if want.Bytes > 0 {
		a.Bytes = min(left.Bytes/part, spareBytes)
	}
	return a
}
