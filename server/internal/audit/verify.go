package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// Verifier examines a chain, whose entries it is given in their order. It names the first thing that is
// wrong.
type Verifier struct {
	name  string
	chain store.AuditChain
	heads map[uint64]string // that were noted elsewhere: hashes in hex, by number

	next  uint64 // the entry that must come next
	last  entry  // the entry before it
	doubt bool   // last does not fit what follows: the entry after that says which of the two was changed
	after entry  // the one that follows, in doubt

	entries  uint64
	broken   string
	brokenAt uint64
}

// entry is what a verifier keeps of an entry.
type entry struct {
	n              uint64
	previous, hash []byte
}

// NewVerifier begins with a chain; noted are heads of it.
func NewVerifier(name string, c *store.AuditChain, noted []carillon.AuditHead) *Verifier {
	v := &Verifier{name: name, chain: *c, next: c.First, heads: map[uint64]string{},
		last: entry{n: c.First - 1, hash: c.Before}}
	for _, h := range noted {
		if was, twice := v.heads[h.Seq]; twice && was != h.Hash {
			v.failf(h.Seq, "two heads with this number were given, which differ")
		}
		v.heads[h.Seq] = h.Hash
	}
	if c.First == 0 || c.First > c.Last+1 {
		v.failf(0, "the record of the chain says that the entries %d to %d are kept", c.First, c.Last)
	}
	return v
}

// fail notes what is wrong first.
func (v *Verifier) failf(n uint64, format string, args ...any) {
	if v.broken == "" {
		v.broken, v.brokenAt = fmt.Sprintf(format, args...), n
	}
}

// Take examines the next record of kind store.KindAudit.
func (v *Verifier) Take(r *store.MetaRecord) {
	v.entries++
	name, n, ok := store.ParseAuditKey(r.Key)
	if !ok || name != v.name {
		v.failf(0, "%q is no key of an entry of this chain", r.Key[:min(len(r.Key), 64)])
		return
	}
	switch {
	case v.broken != "":
		return
	case n < v.next:
		v.failf(n, "entry %d is there, and the chain begins with %d", n, v.chain.First)
		return
	case n > v.next:
		v.settle(nil)
		v.failf(v.next, "entry %d is missing", v.next)
		return
	case n > v.chain.Last:
		v.settle(nil)
		v.failf(n, "entry %d is there, and the chain ends with %d", n, v.chain.Last)
		return
	}
	e := entry{n: n, hash: store.AuditHash(r.Key, r.Value)}
	decoded, err := codec.DecodeAudit(r.Value)
	if err != nil {
		v.settle(nil)
		v.failf(n, "entry %d was changed: it cannot be decoded", n)
		return
	}
	e.previous = decoded.Previous
	v.settle(e.previous)
	if noted, ok := v.heads[n]; ok && noted != hex.EncodeToString(e.hash) {
		v.failf(n, "entry %d was changed, or one before it: it is not the one whose hash was noted", n)
	}
	v.next = n + 1
	if !bytes.Equal(e.previous, v.last.hash) {
		v.doubt, v.after = true, e
		return
	}
	v.last = e
}

// Lost says that the store has lost the next entry, and what follows is not examined.
func (v *Verifier) Lost() {
	v.settle(nil)
	v.failf(v.next, "entry %d, or one that follows, cannot be read: the store is damaged", v.next)
}

// settle says which of two entries was changed that do not fit, by the hash that the next one has of the
// second; nil: there is none.
func (v *Verifier) settle(previous []byte) {
	if !v.doubt {
		return
	}
	switch n := v.after.n; {
	case !bytes.Equal(previous, v.after.hash):
		v.failf(n, "entry %d was changed", n)
	case v.last.n < v.chain.First:
		v.failf(n, "entry %d was changed, or entries before it were removed", n)
	default:
		v.failf(v.last.n, "entry %d was changed", v.last.n)
	}
	v.doubt, v.last = false, v.after
}

// End ends the chain, and returns what was found.
func (v *Verifier) End(partition int) carillon.AuditChain {
	v.settle(v.chain.Hash)
	c := &v.chain
	switch {
	case v.broken != "":
	case v.next <= c.Last:
		v.failf(v.next, "entry %d is missing", v.next)
	case !bytes.Equal(v.last.hash, c.Hash):
		v.failf(c.Last, "entry %d was changed, or the record of the chain", c.Last)
	}
	for _, n := range slices.Sorted(maps.Keys(v.heads)) {
		hash := v.heads[n]
		switch {
		case n > c.Last:
			v.failf(c.Last+1, "entry %d, whose hash was noted, is missing: the chain ends with %d", n, c.Last)
		case n == c.First-1 && hash != hex.EncodeToString(c.Before):
			v.failf(n, "entry %d, which retention has removed, was not the one whose hash was noted", n)
		}
	}
	head := carillon.AuditHead{Chain: v.name, Seq: c.Last, Hash: hex.EncodeToString(c.Hash)}
	return carillon.AuditChain{AuditHead: head, Partition: partition, First: c.First, Entries: v.entries,
		Closed: c.Closed, Broken: v.broken, BrokenAt: v.brokenAt}
}

// Orphan is what is wrong with entries whose chain has no record.
func Orphan(name string, partition int) carillon.AuditChain {
	return carillon.AuditChain{AuditHead: carillon.AuditHead{Chain: name}, Partition: partition,
		Broken: "the record of the chain is missing, or damaged"}
}

// Missing adds the chains of heads that are nowhere.
func Missing(all []carillon.AuditChain, noted []carillon.AuditHead) []carillon.AuditChain {
	there := map[string]bool{}
	for i := range all {
		there[all[i].Chain] = true
	}
	for _, h := range noted {
		if !there[h.Chain] {
			there[h.Chain] = true
			all = append(all, carillon.AuditChain{AuditHead: carillon.AuditHead{Chain: h.Chain}, Partition: -1,
				Broken: "there is no such chain, and a hash of it was noted"})
		}
	}
	return all
}
