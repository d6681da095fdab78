package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// pageBytes bounds the total size of the specs on a page: a page ends before it exceeds this, but holds at
// least one job. It is below the 4 MiB that a gRPC message may have.
const pageBytes = 3 << 20

// merge reads the lists of several sources, usually of partitions, as one list in their common order: a few
// items of each at a time.
type merge[T any] struct {
	sources []*source[T]
	compare func(a, b *T) int
}

// source is one part of a merged list.
type source[T any] struct {
	number int // of the partition
	shard  store.Shard
	// read returns what follows the last item that was read; nil: what the list begins with. end: nothing is
	// left behind that.
	read func(ctx context.Context, last *T) (some []T, end bool, err error)

	last *T
	next []T
	end  bool
}

// readSize is how many items are read of each of n sources at a time for a page: items are spread evenly, so
// this is usually enough.
func readSize(size, n int) int { return 2*size/max(n, 1) + 8 }

// begin makes the first read of every source, and leaves out those that have nothing.
func (m *merge[T]) begin(ctx context.Context) error {
	err := sideBySide(len(m.sources), func(i int) error { return m.sources[i].refill(ctx) })
	m.sources = slices.DeleteFunc(m.sources, func(s *source[T]) bool { return len(s.next) == 0 && s.end })
	return err
}

// refill reads the next few items of a source that has none.
func (s *source[T]) refill(ctx context.Context) error {
	if len(s.next) > 0 || s.end {
		return nil
	}
	some, end, err := s.read(ctx, s.last)
	if err != nil {
		return readError(err)
	}
	s.next, s.end = some, end
	if n := len(some); n > 0 {
		s.last = &some[n-1]
	}
	return nil
}

// first returns the source with the next item; nil at the end. Of equal items it is that of the first source.
func (m *merge[T]) first() *source[T] {
	var best *source[T]
	for _, s := range m.sources {
		if len(s.next) > 0 && (best == nil || m.compare(&s.next[0], &best.next[0]) < 0) {
			best = s
		}
	}
	return best
}

// pass leaves the next item of a source behind.
func (s *source[T]) pass(ctx context.Context) error {
	s.next = s.next[1:]
	return s.refill(ctx)
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
	q.Limit = readSize(size, len(ps.parts))
	m := &jobMerge{compare: byName}
	for i := range ps.parts {
		m.sources = append(m.sources, &source[store.Record]{number: i, shard: ps.shards[i],
			read: pagesOf(ps.shards[i], q)})
	}
	err := m.begin(ctx)
	return m, err
}

func byName(a, b *store.Record) int { return cmp.Compare(a.Name, b.Name) }

// pagesOf reads the records of a query, as many at a time as its limit says.
func pagesOf(shard store.Shard,
	q store.ListQuery) func(context.Context, *store.Record) ([]store.Record, bool, error) {
	return func(ctx context.Context, last *store.Record) ([]store.Record, bool, error) {
		q := q
		if last != nil {
			q.Past(last.Ref)
		}
		records, err := shard.List(ctx, q)
		return records, len(records) < q.Limit, err
	}
}

// jobPage reads a page of at most size jobs, as they stand at an instant. more reports whether others follow.
func (ps *partitions) jobPage(ctx context.Context, m *jobMerge, size int, now int64) (
	page carillon.JobPage, more bool, err error,
) {
	bytes := 0
	for s := m.first(); s != nil; s = m.first() {
		if len(page.Jobs) == size {
			return page, true, nil
		}
		r, err := whole(ctx, s)
		if err != nil {
			return page, false, err
		}
		if bytes += len(r.Spec); bytes > pageBytes && len(page.Jobs) > 0 {
			return page, true, nil
		}
		if err := s.pass(ctx); err != nil {
			return page, false, err
		}
		if !r.Exists {
			continue // deleted while the list was read
		}
		j, err := jobOf(&r, s.number, ps.calendars)
		if err != nil {
			return page, false, err
		}
		j.Status.Hold = inList(&j, &r.State, now)
		page.Jobs = append(page.Jobs, j)
	}
	return page, false, nil
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
