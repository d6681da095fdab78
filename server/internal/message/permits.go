package message

import (
	"cmp"
	"math"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// These are the messages between the home of a limit and the pools of partitions; package permit explains the
// protocol. Any of them may be lost, late, duplicated or out of order; see docs/decisions/0032.

// Stamp orders what the home of a limit has said, and the notices of a dependency. Epoch is that of the term
// of who says it. Each allocation that begins or grows, and each notice, gets a stamp greater than any
// before.
type Stamp struct{ Epoch, N uint64 }

// Compare is negative if s is older than o, and 0 if they are the same.
func (s Stamp) Compare(o Stamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.N, o.N))
}

// Asker is a partition that asks for permits, under its owner's term.
type Asker struct {
	Partition int
	Term      store.Term
}

// PermitRequest says what a partition has, and wants, of a limit.
type PermitRequest struct {
	delivery.Limit
	Stamp Stamp // of the newest grant that it knows; it will accept no older one
	Hold  int   // permits that it keeps: it uses no more until it learns of a newer grant
	Want  int   // further permits, for runs that wait
	Order int64 // of the first of these runs; the lowest goes first
	// Spent is, of a rate, how many permits the partition has used up under its term. It only grows, so it is
	// true whatever the home has said meanwhile.
	Spent uint64
}

// PermitGrant says how many permits the home of a limit has allocated to a partition, in total.
type PermitGrant struct {
	delivery.Limit
	Term  store.Term // the asker's
	Stamp Stamp
	N     int
	Want  int // how many more the home still knows to be wanted
	// NextWaiter is the order of the first run that waits in another partition. It is NoNextWaiter if there
	// is none, and Recall if more is allocated than the limit allows: then every permit that comes free must
	// be returned.
	NextWaiter int64
	// Spent is PermitRequest.Spent as the home knows it: what is used up beyond that is still in N.
	Spent uint64
}

// Values of PermitGrant.NextWaiter that are not an order.
const (
	NoNextWaiter int64 = math.MaxInt64
	Recall       int64 = math.MinInt64
)

// RequestPermits tells the home of some limits which permits another partition holds and wants. The reply is
// what that partition now has of each limit, which is durable. What the home grants later comes by
// [DeliverPermits].
type RequestPermits struct {
	From     Asker
	Requests []PermitRequest
}

// DeliverPermits tells the partition what the homes of limits have granted to it. It is answered once the
// partition has it in its mailbox; nothing is durable by then.
type DeliverPermits struct{ Grants []PermitGrant }

// LimitStands asks the home of a limit how the limit stands for a run that waits in the partition From, with
// the order that it has there. The reply, a [Standing], is of memory.
type LimitStands struct {
	delivery.Limit
	From  int
	Order int64
}

// Standing is how a limit stands.
type Standing struct {
	Held    int   // permits that are handed out
	Holders []int // partitions that have some, the first few
	Before  int   // other partitions, or their lines, whose first run goes before the one that waits
	// Next is, of a rate, when the next attempt may begin, UTC ns; 0: not known. Of each further one it is
	// Every later.
	Next  int64
	Every time.Duration
}

func (RequestPermits) message() {}
func (LimitStands) message()    {}
func (DeliverPermits) message() {}

func (RequestPermits) replies([]PermitGrant) {}
func (DeliverPermits) replies(struct{})      {}
func (LimitStands) replies(Standing)         {}
