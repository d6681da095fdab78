package sealed

import (
	"context"
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/store"
)

// Shard is a partition whose records are decrypted when they are read. What cannot be decrypted is returned
// as it is: package codec refuses such a spec, by name, when it is decoded.
type Shard struct {
	below store.Shard
	box   *Box

	mu     sync.Mutex
	marked []uint32 // keys of which there is a mark, or one is on its way
}

var _ store.Shard = (*Shard)(nil)

// Shard returns a partition as it is without encryption. After a batch that has failed another one must be
// made for the next term, which is admitted again.
func (b *Box) Shard(below store.Shard) store.Shard { return &Shard{below: below, box: b} }

// Admit is an error, [store.MissingKeys], if the node lacks keys of a partition, by its marks; otherwise the
// marks are noted. It is called before the first batch.
func (b *Box) Admit(shard store.Shard, marks []store.MetaRecord) error {
	ids, err := b.known(marks)
	if s, ok := shard.(*Shard); ok && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.marked = ids
	}
	return err
}

// sealed returns a batch as the store is to have it, with the marks that are not there yet.
func (s *Shard) sealed(b *store.Batch) (*store.Batch, error) {
	out, used, err := s.box.Batch(b)
	if err != nil || len(used) == 0 {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range used {
		if slices.Contains(s.marked, id) {
			continue
		}
		m, err := s.box.markOf(id)
		if err != nil {
			return nil, err
		}
		s.marked = append(s.marked, id)
		out.MetaRecords = append(slices.Clip(out.MetaRecords), m)
	}
	return out, nil
}

// Apply implements [store.Shard].
func (s *Shard) Apply(ctx context.Context, b *store.Batch) error {
	out, err := s.sealed(b)
	if err != nil {
		return err
	}
	err = s.below.Apply(ctx, out)
	if err != nil {
		s.mu.Lock()
		s.marked = nil // it is not known whether they are there: a mark may be written twice
		s.mu.Unlock()
	}
	return err
}

// Read implements [store.Shard].
func (s *Shard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	page, err := s.below.Read(ctx, refs)
	return s.box.open(page), err
}

// List implements [store.Shard].
func (s *Shard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	most := roomFor(&q.MaxSpec)
	page, err := s.below.List(ctx, q)
	return upTo(most, s.box.open(page)), err
}

// Due implements [store.Shard].
func (s *Shard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	most := roomFor(&q.MaxSpec)
	page, err := s.below.Due(ctx, q)
	return upTo(most, s.box.open(page)), err
}

// Staged implements [store.Shard].
func (s *Shard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	most := roomFor(&q.MaxSpec)
	page, err := s.below.Staged(ctx, q)
	return upTo(most, s.box.open(page)), err
}

// beside is what an encrypted spec may be longer, but for long labels: such a spec is left out, and read by
// itself when it is needed.
const beside = 512

// roomFor has a query leave out specs that are longer when they are encrypted, and returns the bound itself.
func roomFor(maxSpec *int) (most int) {
	if most = *maxSpec; most > 1 { // of 1 none is wanted
		*maxSpec += beside
	}
	return most
}

// upTo leaves out longer specs; 0: none.
func upTo(most int, page []store.Record) []store.Record {
	for i := range page {
		if most > 0 && len(page[i].Spec) > most {
			page[i].Spec = nil
		}
	}
	return page
}

// Live implements [store.Shard].
func (s *Shard) Live(ctx context.Context, id store.RunID) (store.Ref, bool, error) {
	return s.below.Live(ctx, id)
}

// Runs implements [store.Shard].
func (s *Shard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	page, err := s.below.Runs(ctx, q)
	return s.box.openRuns(page), err
}

// MetaRecords implements [store.Shard].
func (s *Shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	page, err := s.below.MetaRecords(ctx, q)
	return s.box.openMeta(page), err
}

// Reader returns a [store.Reader] for the shards that [Box.Shard] has returned.
func (b *Box) Reader(below store.Reader) store.Reader { return reader{below, b} }

type reader struct {
	below store.Reader
	box   *Box
}

// ReadAll implements [store.Reader].
func (r reader) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	own := slices.Clone(asked)
	for i := range own {
		s, ok := own[i].Shard.(*Shard)
		if !ok {
			return nil, store.ErrOtherStore
		}
		own[i].Shard = s.below
	}
	all, err := r.below.ReadAll(ctx, own)
	for _, page := range all {
		r.box.open(page)
	}
	return all, err
}

// Gatherer returns a [store.Gatherer] that decrypts.
func (b *Box) Gatherer(below store.Gatherer) store.Gatherer { return gatherer{below, b} }

type gatherer struct {
	below store.Gatherer
	box   *Box
}

// Gather implements [store.Gatherer].
func (g gatherer) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	all, err := g.below.Gather(ctx, kind, partitions)
	for _, page := range all {
		g.box.openMeta(page)
	}
	return all, err
}
