package partition

import (
	"cmp"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// In a cluster every limit has a home, the partition of its namespace and key: its [TokenHome] hands tokens out to partitions,
// each of which has a [TokenPool] that uses what it was handed and nothing else. What passes between them may be lost, late,
// doubled or out of order; see docs/decisions/0032.

// HomeOf is the partition, of n, that is the home of the limit.
func (l Limit) HomeOf(n int) int {
	return carillon.PartitionOf(carillon.Key{Namespace: l.Namespace, Name: l.Key}, n)
}

// compare orders limits by namespace and key.
func (l Limit) compare(o Limit) int {
	return cmp.Or(cmp.Compare(l.Namespace, o.Namespace), cmp.Compare(l.Key, o.Key))
}

// PermitStamp orders what the home of a limit has said. Epoch is of the home's term; each grant that begins or grows has a
// greater one than any before.
type PermitStamp struct{ Epoch, N uint64 }

// Compare is below 0 if s is older than o, 0 if they are the same.
func (s PermitStamp) Compare(o PermitStamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.N, o.N))
}

// Asker is a partition that asks for tokens, under the term of its owner.
type Asker struct {
	Partition int
	Term      store.Term
}

// PermitRequest is what a partition has and wants of a limit.
type PermitRequest struct {
	Limit
	Stamp PermitStamp // of the newest grant it has heard of; it will take no older one
	Hold  int         // tokens that it keeps: it uses no more until it hears of a newer grant
	Want  int         // tokens beyond those, for runs that wait
	Order int64       // of the first of these runs: less goes first
}

// PermitGrant is what the home of a limit has handed out to a partition, in all.
type PermitGrant struct {
	Limit
	Term  store.Term // of the asker
	Stamp PermitStamp
	N     int
	Want  int // that the home still knows to be wanted
	// NextWaiter is the order of the first run that waits in another partition; NoRival if there is none, and Recall if more is
	// handed out than the limit: then every token that comes free goes back.
	NextWaiter int64
}

// Values of TokenGrant.Rival that are no order.
const (
	NoNextWaiter int64 = math.MaxInt64
	Recall       int64 = math.MinInt64
)
