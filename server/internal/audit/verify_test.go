package audit_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// chain is a chain as a partition writes it.
type chain struct {
	name    string
	head    store.AuditChain
	records []store.MetaRecord
	hashes  []string
}

// newChain makes a chain of n entries, of which retention has removed the first ones.
func newChain(n, removed int) *chain {
	c := &chain{name: "7-1-f", head: store.AuditChain{First: 1}}
	for i := range n {
		e := store.AuditEntry{Previous: c.head.Hash, Time: int64(i + 1), Principal: "key a", Action: "PutJob",
			Resource: fmt.Sprint("job/", i), Fields: []string{"data", "target"}}
		key, value := store.AuditKey(c.name, c.head.Last+1), codec.AppendAudit(nil, &e)
		c.records = append(c.records, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
		c.head.Last, c.head.Hash, c.head.Time = c.head.Last+1, store.AuditHash(key, value), e.Time
		c.hashes = append(c.hashes, hex.EncodeToString(c.head.Hash))
	}
	for _, r := range c.records[:removed] {
		c.head.First, c.head.Before = c.head.First+1, store.AuditHash(r.Key, r.Value)
	}
	c.records = c.records[removed:]
	return c
}

// clone returns a chain that can be changed.
func (c *chain) clone() *chain {
	d := *c
	d.records = slices.Clone(c.records)
	for i := range d.records {
		d.records[i].Value = slices.Clone(d.records[i].Value)
	}
	d.head.Before, d.head.Hash = slices.Clone(c.head.Before), slices.Clone(c.head.Hash)
	return &d
}

func (c *chain) verify(noted ...carillon.AuditHead) carillon.AuditChain {
	v := audit.NewVerifier(c.name, &c.head, noted)
	for i := range c.records {
		v.Take(&c.records[i])
	}
	return v.End(7)
}

// noted is the head that somebody has noted when the chain had n entries.
func (c *chain) noted(n int) carillon.AuditHead {
	return carillon.AuditHead{Chain: c.name, Seq: uint64(n), Hash: c.hashes[n-1]}
}

// TestAnUnbrokenChain: nothing is wrong with it, whatever retention has removed and whoever has noted heads.
func TestAnUnbrokenChain(t *testing.T) {
	for n := range 6 {
		for removed := range n + 1 {
			c := newChain(n, removed)
			var noted []carillon.AuditHead
			for i := range n {
				noted = append(noted, c.noted(i+1))
			}
			if got := c.verify(noted...); got.Broken != "" || got.Seq != uint64(n) || got.Entries != uint64(n-removed) {
				t.Errorf("%d entries, %d removed: %+v", n, removed, got)
			}
		}
	}
}

// TestEachByteCounts: whichever byte of an entry is changed, the entry is named; of the last one, it may be
// the record of the chain.
func TestEachByteCounts(t *testing.T) {
	for _, removed := range []int{0, 2} {
		whole := newChain(6, removed)
		for i := range whole.records {
			for at := range whole.records[i].Value {
				c := whole.clone()
				c.records[i].Value[at] ^= 0x10
				if got := c.verify(); got.Broken == "" || got.BrokenAt != uint64(removed+i+1) {
					t.Fatalf("byte %d of entry %d, %d removed: %+v", at, removed+i+1, removed, got)
				}
			}
		}
	}
}

// TestTampering: what is wrong is found, and the first entry named.
func TestTampering(t *testing.T) {
	whole := newChain(6, 1) // 2 to 6
	rewritten := newChain(6, 0)
	for name, test := range map[string]struct {
		tamper func(c *chain)
		noted  []carillon.AuditHead
		at     uint64
	}{
		"removed":              {func(c *chain) { c.records = slices.Delete(c.records, 2, 3) }, nil, 4},
		"the oldest removed":   {func(c *chain) { c.records = c.records[1:] }, nil, 2},
		"the newest removed":   {func(c *chain) { c.records = c.records[:4] }, nil, 6},
		"all removed":          {func(c *chain) { c.records = nil }, nil, 2},
		"two values swapped":   {func(c *chain) { swap(&c.records[1], &c.records[2]) }, nil, 3},
		"the last two swapped": {func(c *chain) { swap(&c.records[3], &c.records[4]) }, nil, 5},
		"one put twice": {func(c *chain) {
			r := c.records[4]
			r.Key = store.AuditKey(c.name, 7)
			c.records = append(c.records, r)
		}, nil, 7},
		"an older one put back": {func(c *chain) {
			c.records = slices.Insert(c.records, 0, newChain(1, 0).records[0])
		}, nil, 1},
		"of another chain": {func(c *chain) { c.records[2].Key = store.AuditKey("8-1-f", 4) }, nil, 0},
		"the head's hash":  {func(c *chain) { c.head.Hash[3] ^= 1 }, nil, 6},
		"the anchor":       {func(c *chain) { c.head.Before[3] ^= 1 }, nil, 2},
		"the head's end":   {func(c *chain) { c.head.Last = 5 }, nil, 6},
		"the head's begin": {func(c *chain) { c.head.First = 0 }, nil, 0},
		"cut off, with the head": {func(c *chain) {
			*c = *newChain(4, 1)
		}, []carillon.AuditHead{whole.noted(6)}, 5},
		"rewritten": {func(c *chain) {
			*c = *forged(6, 1)
		}, []carillon.AuditHead{rewritten.noted(3)}, 3},
		"rewritten, before what is kept": {func(c *chain) {
			*c = *forged(6, 1)
		}, []carillon.AuditHead{rewritten.noted(1)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := whole.clone()
			test.tamper(c)
			if got := c.verify(test.noted...); got.Broken == "" || got.BrokenAt != test.at {
				t.Errorf("%+v, want entry %d", got, test.at)
			}
		})
	}
}

func swap(a, b *store.MetaRecord) { a.Value, b.Value = b.Value, a.Value }

// forged is a chain that somebody has rewritten, with another first entry: it is whole by itself.
func forged(n, removed int) *chain {
	c := newChain(0, 0)
	for i := range n {
		e := store.AuditEntry{Previous: c.head.Hash, Time: int64(i + 1), Principal: "key b", Action: "PutJob"}
		key, value := store.AuditKey(c.name, c.head.Last+1), codec.AppendAudit(nil, &e)
		c.records = append(c.records, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
		c.head.Last, c.head.Hash = c.head.Last+1, store.AuditHash(key, value)
	}
	for _, r := range c.records[:removed] {
		c.head.First, c.head.Before = c.head.First+1, store.AuditHash(r.Key, r.Value)
	}
	c.records = c.records[removed:]
	return c
}

// TestAForgedChainIsWhole: only a noted head tells it apart, as docs/security.md says.
func TestAForgedChainIsWhole(t *testing.T) {
	if got := forged(6, 1).verify(); got.Broken != "" {
		t.Errorf("%+v", got)
	}
}
