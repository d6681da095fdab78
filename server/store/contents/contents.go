package contents

import (
	"bytes"
	"iter"
	"math"
	"strings"

	"github.com/tidwall/btree"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Partition is what a partition holds. Several goroutines may read it at once; [Partition.Change] and
// [Partition.Copy] must be alone.
type Partition struct {
	records     *records
	history     *history
	metaRecords *btree.BTreeG[*store.MetaRecord]
}

// New returns the empty contents of the partition with a number.
func New(number int) *Partition {
	return &Partition{records: newRecords(number), history: newHistory(), metaRecords: newTree(lessMeta)}
}

// newTree makes an index. Who has the partition guards it.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// Copy returns a copy that changes by itself. It takes no time for each record: what neither of them changes
// is shared.
func (p *Partition) Copy() *Partition {
	return &Partition{p.records.copied(), p.history.copied(), p.metaRecords.Copy()}
}

// Touched is which records and runs a batch changes, those included that it removes without naming them: the
// pending runs of a deleted job, and the runs that a trim or an expiry takes. Whether one is put or removed
// is told by what the partition holds after the batch.
type Touched struct {
	Records map[store.Ref]struct{}
	Runs    map[store.RunID]carillon.Key
}

// NewTouched returns an empty Touched.
func NewTouched() *Touched {
	return &Touched{Records: map[store.Ref]struct{}{}, Runs: map[store.RunID]carillon.Key{}}
}

func (t *Touched) record(ref store.Ref) {
	if t != nil {
		t.Records[ref] = struct{}{}
	}
}

func (t *Touched) run(id store.RunID, key carillon.Key) {
	if t != nil {
		t.Runs[id] = key
	}
}

// Change does what the batch says, and notes in t, if it is not nil, what that changes.
func (p *Partition) Change(b *store.Batch, t *Touched) {
	for _, ref := range b.Deletes {
		p.records.remove(ref, t)
	}
	p.records.put(b.Puts, t)
	for _, ref := range b.Redrive {
		p.history.redrive(ref, t)
	}
	for i := range b.Runs {
		p.history.put(&b.Runs[i], t)
	}
	for _, trim := range b.Trims {
		p.history.trim(trim, t)
	}
	if b.Expire != nil {
		p.history.expire(*b.Expire, t)
	}
	for i := range b.MetaRecords {
		p.putMeta(&b.MetaRecords[i])
	}
}

// Remove takes finished runs out of the history, whatever they are.
func (p *Partition) Remove(runs []store.RunID) {
	for _, id := range runs {
		p.history.remove(id, nil)
	}
}

// Records are all jobs and pending runs, in the order of refs. They must not be changed.
func (p *Partition) Records() iter.Seq[*store.Record] { return each(p.records.byRef) }

// AllRuns are all finished runs. They must not be changed.
func (p *Partition) AllRuns() iter.Seq[*store.RunRecord] { return each(p.history.byID) }

// AllMetaRecords are all metadata records, by kind and key. They must not be changed.
func (p *Partition) AllMetaRecords() iter.Seq[*store.MetaRecord] { return each(p.metaRecords) }

func each[T any](of *btree.BTreeG[T]) iter.Seq[T] {
	return func(yield func(T) bool) { of.Scan(yield) }
}

// MetaRecord returns a metadata record without copying it, so it must not be changed; nil if there is none.
func (p *Partition) MetaRecord(kind byte, key string) *store.MetaRecord {
	m, ok := p.metaRecords.Get(&store.MetaRecord{Kind: kind, Key: key})
	if !ok {
		return nil
	}
	return m
}

// Record returns a record without copying it, so it must not be changed; nil if there is none.
func (p *Partition) Record(ref store.Ref) *store.Record {
	rec, ok := p.records.byRef.Get(&store.Record{Ref: ref})
	if !ok {
		return nil
	}
	return rec
}

// Run returns a finished run without copying it, so it must not be changed; nil if there is none.
func (p *Partition) Run(id store.RunID) *store.RunRecord { return p.history.of(id) }

// Len is how many jobs, pending and finished runs there are.
func (p *Partition) Len() int { return p.records.byRef.Len() + p.history.byID.Len() }

// Read is that of [store.Shard].
func (p *Partition) Read(refs []store.Ref) []store.Record { return p.records.read(refs) }

// List is that of [store.Shard].
func (p *Partition) List(q store.ListQuery) []store.Record { return p.records.list(q) }

// Due is that of [store.Shard].
func (p *Partition) Due(q store.DueQuery) []store.Record { return p.records.listDue(q) }

// Staged is that of [store.Shard].
func (p *Partition) Staged(q store.StagedQuery) []store.Record { return p.records.listStaged(q) }

// Live is that of [store.Shard].
func (p *Partition) Live(id store.RunID) (store.Ref, bool) { return p.records.of(id) }

// Runs is that of [store.Shard].
func (p *Partition) Runs(q store.RunQuery) ([]store.RunRecord, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	after, err := decodeCursor(q.After)
	if err != nil {
		return nil, err
	}
	return p.history.list(q, after), nil
}

// MetaRecords is that of [store.Shard].
func (p *Partition) MetaRecords(q store.MetaQuery) []store.MetaRecord {
	var out []store.MetaRecord
	from := &store.MetaRecord{Kind: q.Kind, Key: max(q.Prefix, q.After)}
	p.metaRecords.Ascend(from, func(m *store.MetaRecord) bool {
		if len(out) >= q.Limit || m.Kind != q.Kind || !strings.HasPrefix(m.Key, q.Prefix) {
			return false
		}
		if m.Key > q.After || q.After == "" {
			found := *m
			found.Value = bytes.Clone(m.Value)
			out = append(out, found)
		}
		return true
	})
	return out
}

// Gather returns all metadata records of a kind.
func (p *Partition) Gather(kind byte) []store.MetaRecord {
	return p.MetaRecords(store.MetaQuery{Kind: kind, Limit: math.MaxInt})
}

func lessMeta(a, b *store.MetaRecord) bool {
	if a.Kind != b.Kind {
		return a.Kind < b.Kind
	}
	return a.Key < b.Key
}

func (p *Partition) putMeta(m *store.MetaRecord) {
	if m.Value == nil {
		p.metaRecords.Delete(m)
		return
	}
	kept := *m
	kept.Value = bytes.Clone(m.Value)
	p.metaRecords.Set(&kept)
}
