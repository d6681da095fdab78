package repartition

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

const (
	// mostItems and mostBytes are about what is written to a partition at once, at most.
	mostItems = 256
	mostBytes = 1 << 20
	// mostWaiting is about how many bytes wait for that, in all partitions.
	mostWaiting = 64 << 20
	// atOnce is how many partitions are written at the same time, at the end.
	atOnce = 4
	// itemBytes is about how many bytes an item has without its contents.
	itemBytes = 256
)

// sink gathers what comes for each new partition into batches: what comes of one partition of before goes to
// many.
type sink struct {
	take    transfer.Taker
	parts   []gathered
	waiting atomic.Int64 // bytes
}

// gathered is what waits to be written to a partition.
type gathered struct {
	mu     sync.Mutex // held while the partition is written
	batch  store.Batch
	items  int
	bytes  int
	parked map[string]bool // queues that are named
}

func newSink(n int, take transfer.Taker) *sink { return &sink{take: take, parts: make([]gathered, n)} }

func (s *sink) put(ctx context.Context, q int, r *store.Record) error {
	return s.add(ctx, q, len(r.Spec), func(g *gathered) { g.batch.Puts = append(g.batch.Puts, *r) })
}

func (s *sink) run(ctx context.Context, q int, r *store.RunRecord) error {
	return s.add(ctx, q, len(r.Response)+len(r.Spec), func(g *gathered) {
		g.batch.Runs = append(g.batch.Runs, *r)
	})
}

func (s *sink) meta(ctx context.Context, q int, r *store.MetaRecord) error {
	return s.add(ctx, q, len(r.Key)+len(r.Value), func(g *gathered) {
		g.batch.MetaRecords = append(g.batch.MetaRecords, *r)
	})
}

// park names a queue with parked runs, once.
func (s *sink) park(ctx context.Context, q int, queue string) error {
	g := &s.parts[q]
	g.mu.Lock()
	known := g.parked[queue]
	if !known {
		if g.parked == nil {
			g.parked = map[string]bool{}
		}
		g.parked[queue] = true
	}
	g.mu.Unlock()
	if known {
		return nil
	}
	r := partition.ParkedRecord(queue)
	return s.meta(ctx, q, &r)
}

// add adds an item, and writes the batch that it completes.
func (s *sink) add(ctx context.Context, q, bytes int, to func(*gathered)) error {
	g := &s.parts[q]
	bytes += itemBytes
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.items > 0 && g.bytes+bytes > mostBytes {
		if err := s.write(ctx, q); err != nil {
			return err
		}
	}
	to(g)
	g.items, g.bytes = g.items+1, g.bytes+bytes
	if s.waiting.Add(int64(bytes)) > mostWaiting || g.items >= mostItems {
		return s.write(ctx, q)
	}
	return nil
}

// write writes what waits for a partition, whose mutex the caller holds.
func (s *sink) write(ctx context.Context, q int) error {
	g := &s.parts[q]
	if g.items == 0 {
		return nil
	}
	s.waiting.Add(-int64(g.bytes))
	b := g.batch
	g.batch, g.items, g.bytes = store.Batch{}, 0, 0
	return s.take(ctx, q, &b)
}

// flush writes all that waits.
func (s *sink) flush(ctx context.Context) error {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(atOnce)
	for q := range s.parts {
		writes.Go(func() error {
			s.parts[q].mu.Lock()
			defer s.parts[q].mu.Unlock()
			return s.write(ctx, q)
		})
	}
	return writes.Wait()
}
