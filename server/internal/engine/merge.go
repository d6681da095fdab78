package engine

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// pageBytes bounds the total size of the specs on a page: a page ends before it exceeds this, but holds at
// least one job. It is below the 4 MiB that a gRPC message may have.
const pageBytes = 3 << 20

// merge reads the jobs of all partitions in name order, a few of each at a time.
type merge struct {
	query     store.ListQuery // the query of one read
	sources   []*source
	calendars calendarFinder
}

// source is one partition's part of a list.
type source struct {
	number int
	shard  store.Shard
	after  string
	next   []store.Record
	end    bool // nothing is left in the store
}

func (ps *partitions) newMerge(ctx context.Context, q store.ListQuery, size int) (*merge, error) {
	q.Limit = 2*size/len(ps.parts) + 8 // names are spread evenly, so this is usually enough for a page
	m := &merge{calendars: ps.calendars, query: q, sources: make([]*source, len(ps.parts))}
	err := sideBySide(len(ps.parts), func(i int) error {
		m.sources[i] = &source{number: i, shard: ps.shards[i], after: q.After}
		return m.refill(ctx, m.sources[i])
	})
	return m, err
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

// refill reads the next few records of a source that has none.
func (m *merge) refill(ctx context.Context, s *source) error {
	if len(s.next) > 0 || s.end {
		return nil
	}
	q := m.query
	q.After = s.after
	records, err := s.shard.List(ctx, q)
	if err != nil {
		return readError(err)
	}
	s.next, s.end = records, len(records) < q.Limit
	if n := len(records); n > 0 {
		s.after = records[n-1].Name
	}
	return nil
}

// first returns the source with the next record in name order; nil at the end.
func (m *merge) first() *source {
	var best *source
	for _, s := range m.sources {
		if len(s.next) > 0 && (best == nil || s.next[0].Name < best.next[0].Name) {
			best = s
		}
	}
	return best
}

// page reads a page of at most size jobs. more reports whether others follow.
func (m *merge) page(ctx context.Context, size int) (page carillon.JobPage, more bool, err error) {
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
		s.next = s.next[1:]
		if err := m.refill(ctx, s); err != nil {
			return page, false, err
		}
		if !r.Exists {
			continue // deleted while the list was read
		}
		j, err := jobOf(&r, s.number, m.calendars)
		if err != nil {
			return page, false, err
		}
		page.Jobs = append(page.Jobs, j)
	}
	return page, false, nil
}

// whole returns the next record of a source with its spec, however long that is.
func whole(ctx context.Context, s *source) (store.Record, error) {
	if s.next[0].Spec != nil {
		return s.next[0], nil
	}
	records, err := s.shard.Read(ctx, []store.Ref{s.next[0].Ref})
	if err != nil {
		return store.Record{}, readError(err)
	}
	return records[0], nil
}
