// Package permitrecord holds the forms in which permits are stored: which attempts hold one, in the partition
// of their jobs, how many a limit's home has allocated to each partition, and how full the bucket of a rate
// is. All are metadata records of a store.
package permitrecord

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// HomeOf returns the home of a limit: one of n partitions.
func HomeOf(l delivery.Limit, n int) int {
	return store.PartitionOf(carillon.Key{Namespace: l.Namespace, Name: l.Key}, n)
}

// Held says that the attempt in force of a record holds a permit of a limit.
type Held struct {
	Limit delivery.Limit
	Of    store.Ref // in the limit's namespace
}

// Record returns the metadata record of h. With an empty value instead it removes it.
func (h Held) Record() store.MetaRecord {
	return store.MetaRecord{Kind: store.KindLimited, Key: HeldPrefix(h.Limit) + h.Of.Name + "\x00" +
		strconv.FormatUint(h.Of.Seq, 10), Value: []byte{1}}
}

// HeldPrefix returns how the keys of the records of those that hold permits of a limit begin.
func HeldPrefix(l delivery.Limit) string { return l.Key + "\x00" + l.Namespace + "\x00" }

// ParseHeld returns what a metadata record of kind store.KindLimited says; ok is false for one that is
// damaged.
func ParseHeld(r *store.MetaRecord) (h Held, ok bool) {
	parts := strings.Split(r.Key, "\x00")
	if len(parts) != 4 {
		return h, false
	}
	seq, err := strconv.ParseUint(parts[3], 10, 64)
	h.Limit = delivery.Limit{Namespace: parts[1], Key: parts[0]}
	h.Of = store.Ref{Key: carillon.Key{Namespace: parts[1], Name: parts[2]}, Seq: seq}
	return h, err == nil
}

// Allocation is how many permits of a limit its home has allocated to a partition.
type Allocation struct {
	Limit     delivery.Limit
	Partition int
	N         int
	Term      store.Term // of the partition, as it asked last
	Spent     uint64     // of a rate: permits that the partition has used up, as it said last
}

// Record returns the metadata record of a. One of no permits removes it.
func (a Allocation) Record() store.MetaRecord {
	// Concurrency keys contain no zero byte.
	r := store.MetaRecord{Kind: store.KindAllocation,
		Key: a.Limit.Namespace + "\x00" + a.Limit.Key + "\x00" + strconv.Itoa(a.Partition)}
	if a.N > 0 {
		r.Value = binary.AppendUvarint(nil, uint64(a.N))
		r.Value = binary.AppendUvarint(r.Value, a.Term.Epoch)
		r.Value = binary.AppendUvarint(r.Value, a.Term.Nonce)
		if a.Limit.IsRate() {
			r.Value = binary.AppendUvarint(r.Value, a.Spent)
		}
	}
	return r
}

// ParseAllocation returns what a metadata record of kind store.KindAllocation says; ok is false for one that
// is damaged.
func ParseAllocation(r *store.MetaRecord) (a Allocation, ok bool) {
	parts := strings.Split(r.Key, "\x00")
	if len(parts) != 3 {
		return a, false
	}
	a.Limit = delivery.Limit{Namespace: parts[0], Key: parts[1]}
	fields := 3
	if a.Limit.IsRate() {
		fields = 4
	}
	v, ok := uvarints(r.Value, fields)
	if !ok {
		return a, false
	}
	a.N, a.Term = int(min(v[0], math.MaxInt32)), store.Term{Epoch: v[1], Nonce: v[2]}
	if a.Limit.IsRate() {
		a.Spent = v[3]
	}
	p, err := strconv.Atoi(parts[2])
	a.Partition = p
	return a, err == nil
}

// uvarints returns the n numbers with which b begins; ok is false if it has fewer.
func uvarints(b []byte, n int) (v []uint64, ok bool) {
	v = make([]uint64, n)
	for i := range v {
		x, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, false
		}
		v[i], b = x, b[size:]
	}
	return v, true
}

// Level is how full the bucket of a rate was when its home last wrote. One that is full needs no record.
type Level struct {
	Limit  delivery.Limit
	Tokens int64         // with those that are allocated and not used up
	Part   time.Duration // of the next token: how much of Period has counted towards it
	Period time.Duration // of the rate at that time
	At     int64         // UTC ns
}

// Record returns the metadata record of l. It is of the kind of allocations, whose keys have a part more.
func (l Level) Record() store.MetaRecord {
	r := store.MetaRecord{Kind: store.KindAllocation, Key: l.Limit.Namespace + "\x00" + l.Limit.Key}
	for _, n := range []int64{l.Tokens, int64(l.Part), int64(l.Period), l.At} {
		r.Value = binary.AppendUvarint(r.Value, uint64(max(0, n)))
	}
	return r
}

// ParseLevel returns what a metadata record of kind store.KindAllocation says of the level of a bucket; ok is
// false for one that is damaged, or is an [Allocation].
func ParseLevel(r *store.MetaRecord) (l Level, ok bool) {
	parts := strings.Split(r.Key, "\x00")
	if len(parts) != 2 {
		return l, false
	}
	v, ok := uvarints(r.Value, 4)
	for i := range v {
		ok = ok && v[i] <= math.MaxInt64
	}
	if !ok {
		return l, false
	}
	l = Level{Limit: delivery.Limit{Namespace: parts[0], Key: parts[1]}, Tokens: int64(v[0]),
		Part: time.Duration(v[1]), Period: time.Duration(v[2]), At: int64(v[3])}
	return l, l.Limit.IsRate()
}
