package transfer

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/store"
)

const (
	// writesAtOnce is how many partitions of the new store are written at the same time.
	writesAtOnce = 16
	// writesWaiting is how many batches of a partition wait for that.
	writesWaiting = 16
)

// written is a thing to be written to a partition, or to be noted in its place among those.
type written struct {
	batch   *store.Batch
	change  bool            // the batch is a change, not a part of the contents
	copied  bool            // all contents have come
	again   bool            // what has come is of no use: it will come again
	reached chan<- struct{} // gets one when everything before it is durable
}

// writer writes what comes of a partition to the new store.
type writer struct {
	partition int
	shard     store.Shard
	in        chan written
	atOnce    chan struct{}
	counted   *counter
	whole     bool // all contents have come
}

// storeSink writes to a new store.
type storeSink struct {
	writers []*writer // by partition
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// newStoreSink begins to write. If that fails, fail is called.
func newStoreSink(ctx context.Context, f *frozen, p Progress, fail context.CancelCauseFunc) *storeSink {
	ctx, cancel := context.WithCancel(ctx)
	s := &storeSink{cancel: cancel}
	atOnce, counted := make(chan struct{}, writesAtOnce), &counter{progress: p}
	for p, shard := range f.shards {
		in := make(chan written, writesWaiting)
		w := &writer{partition: p, shard: shard, in: in, atOnce: atOnce, counted: counted}
		s.writers = append(s.writers, w)
		s.running.Go(func() {
			if err := w.run(ctx); err != nil && ctx.Err() == nil {
				fail(err)
			}
		})
	}
	return s
}

// stop ends the writing. What was not flushed may be missing.
func (s *storeSink) stop() {
	s.cancel()
	s.running.Wait()
}

func (s *storeSink) put(ctx context.Context, partition int, is written) error {
	return s.writers[partition].put(ctx, is)
}

func (s *storeSink) flush(ctx context.Context) error {
	reached := make(chan struct{}, len(s.writers))
	for _, w := range s.writers {
		if err := w.put(ctx, written{reached: reached}); err != nil {
			return err
		}
	}
	for range s.writers {
		select {
		case <-reached:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// put has something written, after what was put before.
func (w *writer) put(ctx context.Context, is written) error {
	select {
	case w.in <- is:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run writes until the context ends. Changes that wait are written as one batch, as far as they go together.
func (w *writer) run(ctx context.Context) error {
	var next []written // what was taken and could not go with what came before
	for {
		if len(next) == 0 {
			select {
			case is := <-w.in:
				next = append(next, is)
			case <-ctx.Done():
				return nil
			}
		}
		is := next[0]
		for next = next[:0]; is.change && len(next) == 0; {
			more, ok := w.waiting()
			if !ok {
				break
			}
			if !more.change || !join(is.batch, more.batch) {
				next = append(next, more)
			}
		}
		w.atOnce <- struct{}{}
		err := w.do(ctx, is)
		<-w.atOnce
		if err != nil {
			return fmt.Errorf("write to partition %d: %w", w.partition, err)
		}
	}
}

// waiting takes what has come, if there is something.
func (w *writer) waiting() (is written, ok bool) {
	select {
	case is = <-w.in:
		return is, true
	default:
		return is, false
	}
}

func (w *writer) do(ctx context.Context, is written) error {
	switch {
	case is.reached != nil:
		is.reached <- struct{}{}
	case is.copied:
		w.whole = true
	case is.again:
		w.whole = false
		return clearShard(ctx, w.shard)
	case is.change && !w.whole:
		b, err := w.known(ctx, is.batch)
		if err != nil {
			return err
		}
		return again(ctx, w.shard, b)
	default:
		if !is.change {
			defer w.counted.add(is.batch)
		}
		return again(ctx, w.shard, is.batch)
	}
	return nil
}

// mostJoined is how many items the changes have that are joined to one.
const mostJoined = 256

// join adds a later change to a batch, if both concern different jobs, runs and metadata records, and neither
// removes finished runs by their number or age.
func join(b, later *store.Batch) bool {
	for _, one := range []*store.Batch{b, later} {
		if len(one.Trims) > 0 || one.Expire != nil {
			return false
		}
	}
	if items(b)+items(later) > mostJoined {
		return false
	}
	has := map[any]bool{}
	for thing := range things(b) {
		has[thing] = true
	}
	for thing := range things(later) {
		if has[thing] {
			return false
		}
	}
	b.Puts, b.Deletes = append(b.Puts, later.Puts...), append(b.Deletes, later.Deletes...)
	b.Runs, b.Redrive = append(b.Runs, later.Runs...), append(b.Redrive, later.Redrive...)
	b.MetaRecords = append(b.MetaRecords, later.MetaRecords...)
	return true
}

// metaKey names a metadata record.
type metaKey struct {
	kind byte
	key  string
}

func items(b *store.Batch) int {
	return len(b.Puts) + len(b.Deletes) + len(b.Runs) + len(b.Redrive) + len(b.MetaRecords)
}

// things are what a batch concerns: jobs with their pending runs, finished runs, metadata records.
func things(b *store.Batch) iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range b.Puts {
			if !yield(b.Puts[i].Key) {
				return
			}
		}
		for _, ref := range b.Deletes {
			if !yield(ref.Key) {
				return
			}
		}
		for i := range b.Runs {
			if !yield(b.Runs[i].ID) {
				return
			}
		}
		for _, r := range b.Redrive {
			if !yield(r.ID) {
				return
			}
		}
		for _, m := range b.MetaRecords {
			if !yield(metaKey{m.Kind, m.Key}) {
				return
			}
		}
	}
}

// known returns a change without the states of records that are not there: those records will come with the
// contents, or have been deleted since.
func (w *writer) known(ctx context.Context, b *store.Batch) (*store.Batch, error) {
	var alone []store.Ref
	for i := range b.Puts {
		if b.Puts[i].Spec == nil && (b.Puts[i].Seq == 0 || b.Puts[i].State.OwnSpec) {
			alone = append(alone, b.Puts[i].Ref)
		}
	}
	if len(alone) == 0 {
		return b, nil
	}
	found, err := w.shard.Read(ctx, alone)
	if err != nil {
		return nil, err
	}
	absent := map[store.Ref]bool{}
	for i := range found {
		absent[alone[i]] = !found[i].Exists
	}
	b.Puts = slices.DeleteFunc(b.Puts, func(r store.Record) bool { return absent[r.Ref] })
	return b, nil
}

// counter counts the contents that have been written. It is safe for concurrent use.
type counter struct {
	progress Progress

	mu     sync.Mutex
	counts Counts
}

func (c *counter) add(b *store.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Records += int64(len(b.Puts))
	c.counts.Runs += int64(len(b.Runs))
	c.counts.Meta += int64(len(b.MetaRecords))
	if c.progress != nil {
		c.progress(c.counts)
	}
}
