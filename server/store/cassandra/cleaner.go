package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// cleaner keeps the logs of this process's partitions from growing: what is of use in the first segment is
// added to the log again, and the segment goes. So a log has at most some twice of what is of use, and who
// reads it never passes over what was deleted.
type cleaner struct {
	s     *Store
	end   context.CancelFunc
	wake  chan struct{}
	ended sync.WaitGroup
	full  []atomic.Bool // by partition: there is something to do
}

const (
	// restEvery is how often partitions of other nodes are forgotten that nobody has read meanwhile.
	restEvery = time.Minute
	// keptFor is how long a segment says that another goes on, after its rows have gone.
	keptFor = 10 * 24 * time.Hour
	// againAtOnce is how many rows are added again at once.
	againAtOnce = 500
)

func newCleaner(s *Store) *cleaner {
	ctx, end := context.WithCancel(context.Background())
	c := &cleaner{s: s, end: end, wake: make(chan struct{}, 1), full: make([]atomic.Bool, len(s.replicas))}
	c.ended.Go(func() { c.run(ctx) })
	return c
}

// close ends what is under way.
func (c *cleaner) close() {
	c.end()
	c.ended.Wait()
}

// wasteful reports whether a log has much more than is of use.
func (v *version) wasteful(spare size) bool {
	if len(v.segments) < 2 {
		return false
	}
	log := v.log()
	return log.rows > 2*v.live.rows+spare.rows || log.bytes > 2*v.live.bytes+spare.bytes
}

// look has a partition cleaned, if it needs that.
func (c *cleaner) look(r *replica) {
	v := r.is.Load()
	if v == nil || !v.wasteful(c.s.opt.limits.spare) {
		return
	}
	c.full[r.number].Store(true)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *cleaner) run(ctx context.Context) {
	rest := time.NewTicker(restEvery)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
			for _, r := range c.s.replicas {
				r.rest()
			}
		case <-c.wake:
			for _, r := range c.s.replicas {
				if !c.full[r.number].Swap(false) {
					continue
				}
				// It is tried again after the partition's next batch.
				if err := r.clean(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
					c.s.opt.Log.Warn("the log of a partition could not be cleaned, and grows", "partition", r.number, "error", err)
				}
			}
		}
	}
}

// clean takes away first segments while there are too many.
func (r *replica) clean(ctx context.Context) error {
	for {
		v := r.is.Load()
		if v == nil || !r.owns(v) || !v.wasteful(r.s.opt.limits.spare) {
			return nil
		}
		first := v.segments[0].number
		if r.dropped < first-1 { // who came before may not have come to it
			if err := r.drop(ctx, first-1); err != nil {
				return err
			}
		}
		if err := r.rescue(ctx, first); err != nil {
			return err
		}
		if err := r.raise(ctx, first); err != nil {
			return err
		}
		if err := r.drop(ctx, first); err != nil {
			return err
		}
	}
}

// owns reports whether a version is under the term of this process.
func (r *replica) owns(v *version) bool {
	mine := r.mine.Load()
	return mine != nil && len(v.segments) > 0 && v.term == *mine
}

// rescue adds what is of use in a segment to the log again.
func (r *replica) rescue(ctx context.Context, segment int) error {
	var rows []row
	restart := func() { rows = rows[:0] }
	err := r.s.wire.each(ctx, r.s.wire.levels.regular, selectRows(r.number, segment, 0), restart,
		func(scan func(...any) error) error {
			w, err := scanRow(scan)
			if err != nil {
				return r.damaged(segment, w.number, err)
			}
			if !w.gone && w.item > 0 {
				rows = append(rows, w)
			}
			return nil
		})
	if err != nil {
		return failure(err)
	}
	for len(rows) > 0 {
		n, sum := 0, 0
		for n < len(rows) && n < againAtOnce && sum < mostBytes {
			sum += rows[n].size().bytes
			n++
		}
		if err := r.addAgain(ctx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// addAgain adds rows to the log again, as what they are about is now, if they may be the last that say so.
func (r *replica) addAgain(ctx context.Context, rows []row) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	v := r.is.Load()
	if v == nil || !r.owns(v) {
		return store.ErrFenced
	}
	o := &built{}
	there := map[string]bool{}
	for i := range rows {
		w, err := r.again(v, &rows[i])
		if err != nil {
			return err
		}
		if w != nil && !there[w.called()] {
			there[w.called()] = true
			o.add(w)
		}
	}
	if len(o.rows) == 0 {
		return nil
	}
	return r.add(context.WithoutCancel(ctx), v, v.holds, o)
}

// called is what no two rows of a batch have in common.
func (w *row) called() string {
	return fmt.Sprintf("%s %q %q %d %s %q", w.kind, w.namespace, w.name, w.seq, w.id, w.key)
}

// again returns the row of what a row is about; nil if a later one says the same, or it is gone. A row with a
// spec may be the only one that has it, whatever came later.
func (r *replica) again(v *version, old *row) (*row, error) {
	switch old.kind {
	case kindJob, kindPending:
		rec := v.holds.Record(old.ref())
		if rec == nil {
			return nil, nil
		}
		now := recordRow(rec, true)
		if old.spec == nil && !bytes.Equal(old.value, now.value) {
			return nil, nil
		}
		return &now, nil
	case kindRun:
		id, err := store.ParseRunID(old.id)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		run := v.holds.Run(id)
		if run == nil || !bytes.Equal(old.value, codec.AppendRun(nil, run)) {
			return nil, nil
		}
		now := runRow(run)
		return &now, nil
	case kindMeta:
		m := v.holds.MetaRecord(old.key[0], string(old.key[1:]))
		if m == nil || !bytes.Equal(old.value, m.Value) {
			return nil, nil
		}
		now := metaRow(m)
		return &now, nil
	}
	return nil, errStrange
}

// raise makes the segment after one the first of the log.
func (r *replica) raise(ctx context.Context, from int) error {
	if err := r.lock(ctx); err != nil {
		return err
	}
	defer r.unlock()
	v := r.is.Load()
	if v == nil || !r.owns(v) || len(v.segments) < 2 || v.segments[0].number != from {
		return store.ErrFenced
	}
	done, err := r.s.wire.cas(ctx, statement{`UPDATE $owners SET first = ? WHERE cluster = 0 AND partition = ? IF first = ?`,
		[]any{v.segments[1].number, r.number, from}})
	if err != nil {
		return failure(err)
	}
	if !done {
		first, err := r.firstOf(ctx)
		if err != nil {
			return failure(err)
		}
		if first < v.segments[1].number {
			return fmt.Errorf("%w: the log begins with segment %d, not %d", store.ErrDamaged, first, from)
		}
	}
	next := *v
	next.segments = v.segments[1:]
	r.is.Store(&next)
	return nil
}

// drop deletes the rows of a segment that the log does not begin with any more. What the segment says of
// itself stays for a while: a node that was held up since before it was begun would begin it otherwise.
func (r *replica) drop(ctx context.Context, segment int) error {
	err := r.s.wire.write(ctx, statement{`DELETE FROM $changes WHERE partition = ? AND segment = ? AND number >= 0`,
		[]any{r.number, segment}})
	if err == nil {
		err = r.s.wire.write(ctx, statement{`UPDATE $changes USING TTL ? SET epoch = 0, nonce = 0, start = ?, last = ?, next = ?, ` +
			`settings = {} WHERE partition = ? AND segment = ?`,
			[]any{int(keptFor.Seconds()), int64(droppedStart), int64(droppedStart), segment + 1, r.number, segment}})
	}
	if err != nil {
		return failure(fmt.Errorf("delete segment %d of partition %d: %w", segment, r.number, err))
	}
	r.dropped = segment
	return nil
}
