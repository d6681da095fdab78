package partition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// AuditLog has calls recorded: the entry of a call is in the batch of what it has changed, so there is one if
// and only if the change was made. The entries of a partition form a chain, each with the hash of the one
// before (store.KindAudit). One record of kind store.KindAuditChain says how many there are, which were
// removed by retention, and the hashes at both ends. A chain that a store with another number of partitions
// began is closed: it is only shortened. So is one that is damaged.
type AuditLog struct {
	out  *builder
	name string // of the first chain that this term would begin
	keep time.Duration
	most uint64

	chains  map[string]*store.AuditChain // as of the batch being filled
	open    string                       // that of them to which entries are added; empty: none yet
	filling []store.AuditEntry           // of the batch being filled
	changed map[string]bool              // chains whose record is to be written
	sweep   auditSweep
}

// Bounds on audit entries.
const (
	DefaultAuditKeep = 90 * 24 * time.Hour
	// DefaultAuditMost is how many entries of a partition are kept.
	DefaultAuditMost = 100_000
	// AuditSweep is how many entries one step of a sweep removes at most.
	AuditSweep = 1000
)

func newAuditLog(out *builder, cfg *Config) *AuditLog {
	return &AuditLog{out: out, name: store.AuditName(cfg.Partition, cfg.Term), keep: cfg.AuditKeep,
		most: uint64(cfg.AuditMost), chains: map[string]*store.AuditChain{}, changed: map[string]bool{},
		sweep: auditSweep{oldest: map[string]int64{}, left: map[string]bool{}}}
}

// load takes the records of kind store.KindAuditChain. One that is damaged is left as it is, and named by the
// error: another chain begins.
func (l *AuditLog) load(records []store.MetaRecord) error {
	var damaged []error
	for _, r := range records {
		c, err := codec.DecodeAuditChain(r.Value)
		if err != nil {
			damaged = append(damaged, fmt.Errorf("audit chain %s: %w", r.Key, err))
			continue
		}
		l.chains[r.Key] = &c
		if !c.Closed {
			l.open = r.Key
		}
	}
	return errors.Join(damaged...)
}

// Add records an entry with the batch that is being filled. Its time is now, or that of the entry before if
// that is later.
func (l *AuditLog) Add(now int64, e store.AuditEntry) {
	if l.open == "" {
		l.open = l.fresh()
		l.chains[l.open] = &store.AuditChain{First: 1}
	}
	c := l.chains[l.open]
	c.Time = max(c.Time, now)
	e.Time = c.Time
	l.filling = append(l.filling, e)
	l.changed[l.open] = true
	l.out.await(l.out.seq)
}

// fresh is the name of the chain that begins now. A term begins another one only after the one before was
// found damaged.
func (l *AuditLog) fresh() string {
	name := l.name
	for n := 2; l.chains[name] != nil; n++ {
		name = fmt.Sprintf("%s_%d", l.name, n)
	}
	return name
}

// unchanged reports whether seal would write nothing.
func (l *AuditLog) unchanged() bool { return len(l.changed) == 0 }

// seal has what was added written.
func (l *AuditLog) seal() {
	if l.unchanged() {
		return
	}
	for i := range l.filling {
		c, e := l.chains[l.open], &l.filling[i]
		e.Previous = c.Hash
		key, value := store.AuditKey(l.open, c.Last+1), codec.AppendAudit(nil, e)
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
		c.Last, c.Hash = c.Last+1, store.AuditHash(key, value)
	}
	l.filling = recycle(l.filling)
	if l.endsOpen() {
		l.chains[l.open].Closed, l.open = true, ""
	}
	for _, name := range slices.Sorted(maps.Keys(l.changed)) {
		l.out.small = append(l.out.small, store.MetaRecord{Kind: store.KindAuditChain, Key: name,
			Value: codec.AppendAuditChain(nil, l.chains[name])})
	}
	clear(l.changed)
}
