package partition

import (
	"cmp"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// These are the messages between a [PermitPool] and a [PermitHome]; limit_home.go explains the protocol. Any
// of them may be lost, late, duplicated or out of order; see docs/decisions/0032.

// HomeOf returns the home of the limit: one of n partitions.
func (l Limit) HomeOf(n int) int {
	return carillon.PartitionOf(carillon.Key{Namespace: l.Namespace, Name: l.Key}, n)
}

// compare orders limits by namespace and key.
func (l Limit) compare(o Limit) int {
	return cmp.Or(cmp.Compare(l.Namespace, o.Namespace), cmp.Compare(l.Key, o.Key))
}

// PermitStamp orders what the home of a limit has said. Epoch is that of the home's term. Each allocation
// that begins or grows gets a stamp greater than any before.
type PermitStamp struct{ Epoch, N uint64 }

// Compare is negative if s is older than o, and 0 if they are the same.
func (s PermitStamp) Compare(o PermitStamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.N, o.N))
}

// Asker is a partition that asks for permits, under its owner's term.
type Asker struct {
	Partition int
	Term      store.Term
}

// PermitRequest says what a partition has, and wants, of a limit.
type PermitRequest struct {
	Limit
	Stamp PermitStamp // of the newest grant that it knows; it will accept no older one
	Hold  int         // permits that it keeps: it uses no more until it learns of a newer grant
	Want  int         // further permits, for runs that wait
	Order int64       // of the first of these runs; the lowest goes first
}

// PermitGrant says how many permits the home of a limit has allocated to a partition, in total.
type PermitGrant struct {
	Limit
	Term  store.Term // the asker's
	Stamp PermitStamp
	N     int
	Want  int // how many more the home still knows to be wanted
	// NextWaiter is the order of the first run that waits in another partition. It is NoNextWaiter if there
	// is none, and Recall if more is allocated than the limit allows: then every permit that comes free must
	// be returned.
	NextWaiter int64
}

// Values of PermitGrant.NextWaiter that are not an order.
const (
	NoNextWaiter int64 = math.MaxInt64
	Recall       int64 = math.MinInt64
)
