package engine

import (
	"cmp"
	"context"
	"math"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/store"
)

// pageBytes bounds the total size of the specs that are examined for a page: it ends before it exceeds this,
// but at least one is. It is below the 4 MiB that a gRPC message may have.
const pageBytes = 3 << 20

// merge reads the lists of several sources, usually of partitions, as one list in their common order: a few
// items of each at a time. Of equal items, that of the source that was added first comes first.
type merge[T any] struct {
	sources []*source[T]
	compare func(a, b *T) int

	next heaps.Of[*source[T]] // the sources that have more, once begun
}

// source is one part of a merged list.
type source[T any] struct {
	number int // of the partition
	shard  store.Shard
	// read returns at most n items of those that follow the last one that was read; nil: of all. end: nothing
	// is left behind them.
	read func(ctx context.Context, last *T, n int) (some []T, end bool, err error)
	size int // how many are read next

	last *T
	next []T
	end  bool

	of    *merge[T]
	order int   // among the sources
	at    int32 // in the heap
}

// Before reports whether the next item of s comes before that of o.
func (s *source[T]) Before(o *source[T]) bool {
	c := s.of.compare(&s.next[0], &o.next[0])
	return c < 0 || c == 0 && s.order < o.order
}

// At is the place of s in the heap.
func (s *source[T]) At() *int32 { return &s.at }

// readSize is how many items are read first of each of n sources for a page: its share of them, and so many
// more that few sources must be read a second time. Items are spread as by chance, so how many a source has
// deviates from its share by about the root of it.
func readSize(size, n int) int {
	share := float64(size) / float64(max(n, 1))
	return int(math.Ceil(share+2*math.Sqrt(share))) + 1
}

// mostRead is how many items of a source are read at once at most. Each read of a source is twice as large as
// the one before, up to this.
const mostRead = 128

// begin makes the first read of every source.
func (m *merge[T]) begin(ctx context.Context) error {
	if err := sideBySide(len(m.sources), func(i int) error { return m.sources[i].refill(ctx) }); err != nil {
		return err
	}
	m.next = make(heaps.Of[*source[T]], 0, len(m.sources))
	for i, s := range m.sources {
		if s.of, s.order, s.at = m, i, -1; len(s.next) > 0 {
			m.next.Add(s)
		}
	}
	return nil
}

// refill reads the next few items of a source that has none.
func (s *source[T]) refill(ctx context.Context) error {
	if len(s.next) > 0 || s.end {
		return nil
	}
	some, end, err := s.read(ctx, s.last, s.size)
	if err != nil {
		return readError(err)
	}
	s.next, s.end, s.size = some, end, max(s.size, min(2*s.size, mostRead))
	if n := len(some); n > 0 {
		s.last = &some[n-1]
	}
	return nil
}

// first returns the source with the next item; nil at the end.
func (m *merge[T]) first() *source[T] {
	if len(m.next) == 0 {
		return nil
	}
	return m.next[0]
}

// pass leaves the next item of the first source behind.
func (m *merge[T]) pass(ctx context.Context) error {
	s := m.next[0]
	rest := s.next[1:]
	if s.next = rest; len(rest) == 0 {
		if err := s.refill(ctx); err != nil {
			return err
		}
	}
	if len(s.next) == 0 {
		m.next.Remove(s)
	} else {
		m.next.Fix(0)
	}
	return nil
}

// readers is how many partitions a call reads concurrently. A read of a store on another machine is a round
// trip, so a list over 64 partitions takes 8 of them. The store's connections are needed for other calls,
// too.
const readers = 8

// sideBySide calls f for 0 … n-1, up to readers at once, and waits. After an error it starts no more; of
// several errors it returns one.
func sideBySide(n int, f func(i int) error) error { return withWidth(n, readers, f) }

// eachAtOnce calls f for 0 … n-1, all at once, and returns the first error by number.
func eachAtOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	_ = withWidth(n, n, func(i int) error {
		errs[i] = f(i)
		return nil // the others are called all the same
	})
	return cmp.Or(errs...)
}

// withWidth is sideBySide with up to width calls at once.
func withWidth(n, width int, f func(i int) error) error {
	var next atomic.Int64
	errs := make(chan error, min(n, width))
	for range cap(errs) {
		go func() {
			var err error
			for i := int(next.Add(1)) - 1; i < n && err == nil; i = int(next.Add(1)) - 1 {
				if err = f(i); err != nil {
					next.Store(int64(n))
				}
			}
			errs <- err
		}()
	}
	return firstOf(errs, cap(errs))
}

// firstOf waits for n outcomes, and returns the first error among them.
func firstOf(outcomes <-chan error, n int) (first error) {
	for range n {
		if err := <-outcomes; first == nil {
			first = err
		}
	}
	return first
}

// jobMerge is the jobs of all partitions in name order.
type jobMerge = merge[store.Record]

func (ps *partitions) mergeJobs(ctx context.Context, q store.ListQuery, size int) (*jobMerge, error) {
	m := &jobMerge{compare: byName}
	for i := range ps.parts {
		m.sources = append(m.sources, &source[store.Record]{number: i, shard: ps.shards[i],
			read: pagesOf(ps.shards[i], q), size: readSize(size, len(ps.parts))})
	}
	err := m.begin(ctx)
	return m, err
}

func byName(a, b *store.Record) int { return cmp.Compare(a.Name, b.Name) }

// pagesOf reads the records of a query.
func pagesOf(shard store.Shard,
	q store.ListQuery) func(context.Context, *store.Record, int) ([]store.Record, bool, error) {
	return func(ctx context.Context, last *store.Record, n int) ([]store.Record, bool, error) {
		q := q
		q.Limit = n
		if last != nil {
			q.Past(last.Ref)
		}
		records, err := shard.List(ctx, q)
		return records, len(records) < q.Limit, err
	}
}

// whole returns the next record of a source with its spec, however long that is.
func whole(ctx context.Context, s *source[store.Record]) (store.Record, error) {
	if s.next[0].Spec != nil {
		return s.next[0], nil
	}
	records, err := s.shard.Read(ctx, []store.Ref{s.next[0].Ref})
	if err != nil {
		return store.Record{}, readError(err)
	}
	return records[0], nil
}
