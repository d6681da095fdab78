// Package permitrecord holds the forms in which permits are stored: which attempts hold one, in the partition
// of their jobs, and how many a limit's home has allocated to each partition. Both are metadata records of a
// store.
package permitrecord

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

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
	var v [3]uint64
	b := r.Value
	for i := range v {
		x, size := binary.Uvarint(b)
		if size <= 0 {
			return a, false
		}
		v[i], b = x, b[size:]
	}
	p, err := strconv.Atoi(parts[2])
	return Allocation{Limit: delivery.Limit{Namespace: parts[0], Key: parts[1]}, Partition: p,
		N: int(min(v[0], math.MaxInt32)), Term: store.Term{Epoch: v[1], Nonce: v[2]}}, err == nil
}
