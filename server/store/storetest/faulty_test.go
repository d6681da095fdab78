package storetest_test

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// hook stands between a caller and a method: it may change the question, the answer, or not ask at all.
type hook[Q, A any] func(q Q, next func(Q) (A, error)) (A, error)

func (h hook[Q, A]) call(q Q, next func(Q) (A, error)) (A, error) {
	if h == nil {
		return next(q)
	}
	return h(q, next)
}

// submit is Submit.
type submit func(writes []store.Write, done func(error))

// faults are the hooks of a faulty store; nil ones do nothing.
type faults struct {
	term        func(partition int, t store.Term) store.Term // what a shard's term becomes
	shard       func(partition int) int                      // what a shard's number becomes
	apply       func(partition int, term store.Term, b *store.Batch, next func(*store.Batch) error) error
	group       func(writes []store.Write, next func([]store.Write) error) error
	submit      func(writes []store.Write, done func(error), next submit)
	read        hook[[]store.Ref, []store.Record]
	list        hook[store.ListQuery, []store.Record]
	due         hook[store.DueQuery, []store.Record]
	staged      hook[store.StagedQuery, []store.Record]
	live        hook[store.RunID, *store.Ref]
	runs        hook[store.RunQuery, []store.RunRecord]
	metaRecords hook[store.MetaQuery, []store.MetaRecord]
	leaser      func(l store.Leaser) store.Leaser
	meta        func(m store.Meta) store.Meta
	count       func(c *store.Counts)
	counts      func(each []store.Counts)
	countJobs   func(each []int)
	crash       func() // loses what is not durable
}

// faultyStore is a store with faults.
type faultyStore struct {
	store.Store
	faults faults
	closed atomic.Bool // for Submit
}

func (s *faultyStore) Shard(partition int, term store.Term) (store.Shard, error) {
	if s.faults.term != nil {
		term = s.faults.term(partition, term)
	}
	if s.faults.shard != nil {
		partition = s.faults.shard(partition)
	}
	inner, err := s.Store.Shard(partition, term)
	if err != nil {
		return nil, err
	}
	return &faultyShard{Shard: inner, faults: &s.faults, partition: partition, held: term}, nil
}

// ApplyGroup hands the group of the shards below to the store below.
func (s *faultyStore) ApplyGroup(ctx context.Context, writes []store.Write) error {
	next := func(writes []store.Write) error {
		inner := slices.Clone(writes)
		for i := range inner {
			if sh, ok := inner[i].Shard.(*faultyShard); ok {
				inner[i].Shard = sh.Shard
			}
		}
		return s.Store.(store.Grouper).ApplyGroup(ctx, inner)
	}
	if s.faults.group == nil {
		return next(writes)
	}
	return s.faults.group(writes, next)
}

// Submit waits for the outcome of ApplyGroup.
func (s *faultyStore) Submit(writes []store.Write, done func(error)) {
	if s.closed.Load() {
		done(store.ErrClosed)
		return
	}
	next := func(writes []store.Write, done func(error)) { done(s.ApplyGroup(context.Background(), writes)) }
	if s.faults.submit == nil {
		next(writes, done)
		return
	}
	s.faults.submit(writes, done, next)
}

// reopened is the store below as it is opened again.
func (s *faultyStore) reopened() store.Store {
	s.closed.Store(true)
	return &faultyStore{Store: s.Store, faults: s.faults}
}

// Count asks the store below, and lets a fault change the answer.
func (s *faultyStore) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	each, err := s.Store.(store.Counter).Count(ctx, partitions)
	for i := range each {
		if s.faults.count != nil {
			s.faults.count(&each[i])
		}
	}
	if s.faults.counts != nil {
		s.faults.counts(each)
	}
	return each, err
}

// CountJobs does the same.
func (s *faultyStore) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	each, err := s.Store.(store.Counter).CountJobs(ctx, partitions)
	if s.faults.countJobs != nil {
		s.faults.countJobs(each)
	}
	return each, err
}

func (s *faultyStore) Leaser() store.Leaser {
	if s.faults.leaser != nil {
		return s.faults.leaser(s.Store.Leaser())
	}
	return s.Store.Leaser()
}

func (s *faultyStore) Meta() store.Meta {
	if s.faults.meta != nil {
		return s.faults.meta(s.Store.Meta())
	}
	return s.Store.Meta()
}

// faultyShard is a shard with faults.
type faultyShard struct {
	store.Shard
	*faults
	partition int
	held      store.Term
}

func (s *faultyShard) Apply(ctx context.Context, b *store.Batch) error {
	next := func(b *store.Batch) error { return s.Shard.Apply(ctx, b) }
	if s.apply == nil {
		return next(b)
	}
	return s.apply(s.partition, s.held, b, next)
}

func (s *faultyShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return s.read.call(refs, func(refs []store.Ref) ([]store.Record, error) { return s.Shard.Read(ctx, refs) })
}

func (s *faultyShard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return s.list.call(q, func(q store.ListQuery) ([]store.Record, error) { return s.Shard.List(ctx, q) })
}

func (s *faultyShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return s.due.call(q, func(q store.DueQuery) ([]store.Record, error) { return s.Shard.Due(ctx, q) })
}

func (s *faultyShard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return s.staged.call(q, func(q store.StagedQuery) ([]store.Record, error) { return s.Shard.Staged(ctx, q) })
}

func (s *faultyShard) Live(ctx context.Context, id store.RunID) (store.Ref, bool, error) {
	ref, err := s.live.call(id, func(id store.RunID) (*store.Ref, error) {
		ref, ok, err := s.Shard.Live(ctx, id)
		if !ok {
			return nil, err
		}
		return &ref, err
	})
	if ref == nil {
		return store.Ref{}, false, err
	}
	return *ref, true, err
}

func (s *faultyShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return s.runs.call(q, func(q store.RunQuery) ([]store.RunRecord, error) { return s.Shard.Runs(ctx, q) })
}

func (s *faultyShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return s.metaRecords.call(q, func(q store.MetaQuery) ([]store.MetaRecord, error) {
		return s.Shard.MetaRecords(ctx, q)
	})
}

// change makes a hook that changes the answer.
func change[Q, A any](f func(q Q, a A) A) hook[Q, A] {
	return func(q Q, next func(Q) (A, error)) (A, error) {
		a, err := next(q)
		return f(q, a), err
	}
}

// ask makes a hook that changes the question.
func ask[Q, A any](f func(q Q) Q) hook[Q, A] {
	return func(q Q, next func(Q) (A, error)) (A, error) { return next(f(q)) }
}

// onBatch makes faults that change a batch before it is applied.
func onBatch(f func(b *store.Batch)) faults {
	return faults{apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		changed := *b
		f(&changed)
		return next(&changed)
	}}
}
