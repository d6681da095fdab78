package cassandra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

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
	// failedPause is how long a log is left alone that could not be cleaned.
	failedPause = time.Minute
	// cleanedAtOnce is how many logs are cleaned at the same time.
	cleanedAtOnce = 4
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

// wasteful returns how many first segments of a log are to go: as many as it has much more than is of use.
func (v *version) wasteful(spare size) (n int) {
	log := v.log()
	for n < len(v.segments)-1 && (log.rows > spare.rows || log.bytes > spare.bytes) {
		// if live is unweighed, nobody knows yet how much is of use: replica.refreshed weighs it before cleaning
		if v.live != unweighed && log.rows <= 2*v.live.rows+spare.rows && log.bytes <= 2*v.live.bytes+spare.bytes {
			break
		}
		log = log.minus(v.segments[n].size)
		n++
	}
	return n
}

// look has a partition cleaned, if it needs that.
func (c *cleaner) look(r *replica) {
	v := r.is.Load()
	if v == nil || v.wasteful(c.s.opt.limits.spare) == 0 {
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
			c.cleanAll(ctx)
		}
	}
}

// cleanAll cleans the logs that need it.
func (c *cleaner) cleanAll(ctx context.Context) {
	_ = forEach(len(c.s.replicas), cleanedAtOnce, func(p int) error { // each says itself why it could not be
		r := c.s.replicas[p]
		if !c.full[p].Swap(false) || time.Now().Before(r.notBefore) {
			return nil
		}
		// Who ends, or owns it no more, leaves it to others.
		if err := r.clean(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
			r.notBefore = time.Now().Add(failedPause)
			c.s.opt.Log.Warn("the log of a partition could not be cleaned, and grows", "partition", p,
				"error", err)
		}
		return nil
	})
}

// refreshed brings the version up to date before its log is cleaned: another node may have moved the
// beginning of the log to first, and how much of it is live may not be known.
func (r *replica) refreshed(ctx context.Context, first int) (*version, error) {
	if err := r.turn.Take(ctx, nil); err != nil {
		return nil, err
	}
	defer r.turn.Give()
	v := r.is.Load()
	if v == nil || !r.owns(v) {
		return nil, store.ErrFenced
	}
	if v.live == unweighed || v.segments[0].number < first {
		with := *v
		for len(with.segments) > 1 && with.segments[0].number < first {
			with.segments = with.segments[1:]
		}
		if with.live == unweighed {
			with.live = weigh(with.holds)
		}
		r.is.Store(&with)
		v = &with
	}
	return v, nil
}

// clean removes the first segments that are too many. The log's beginning is moved once for all of them: each
// move is a vote on a row of owners, and those rows of all partitions share one partition key.
func (r *replica) clean(ctx context.Context) error {
	begins, err := r.firstOf(ctx)
	if err != nil {
		return failure(err)
	}
	v, err := r.refreshed(ctx, begins)
	if err != nil {
		return err
	}
	n := v.wasteful(r.s.opt.limits.spare)
	if n == 0 {
		return nil
	}
	first, next := v.segments[0].number, v.segments[n].number
	for _, s := range v.segments[:n] {
		if err := r.rescue(ctx, s.number); err != nil {
			return err
		}
	}
	if err := r.raise(ctx, first, next); err != nil {
		return err
	}
	from, err := r.left(ctx, first)
	if err != nil {
		return err
	}
	for segment := from; segment < next; segment++ { // in this order: what is left of it is found by left
		if err := r.drop(ctx, segment); err != nil {
			return err
		}
	}
	return nil
}

// left returns the first segment before the first one whose rows have not gone. Who cleaned the log before
// may not have come to all of them.
func (r *replica) left(ctx context.Context, first int) (int, error) {
	for ; first > 1; first-- {
		t, err := r.readTail(ctx, r.s.wire.levels.regular, first-1)
		if err != nil {
			return 0, failure(err)
		}
		if !t.exists || t.dropped() {
			break
		}
	}
	return first, nil
}

// owns reports whether a version is under the term of this process.
func (r *replica) owns(v *version) bool {
	mine := r.mine.Load()
	return mine != nil && len(v.segments) > 0 && v.term == *mine
}

// rescue adds what is of use in a segment to the log again.
func (r *replica) rescue(ctx context.Context, segment int) error {
	rows, err := r.whole(ctx, segment)
	if err != nil {
		return err
	}
	for len(rows) > 0 {
		n, err := r.addAgain(ctx, rows)
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// whole returns the rows of a segment's batches that say what something is. All of them must be there: what
// is left out is lost when the segment goes.
func (r *replica) whole(ctx context.Context, segment int) (rows []row, err error) {
	for _, level := range []gocql.Consistency{r.s.wire.levels.regular, gocql.All} {
		t, err := r.readTail(ctx, level, segment)
		if err != nil {
			return nil, failure(err)
		}
		c := counter{last: t.start}
		restart := func() { rows, c = rows[:0], counter{last: t.start} }
		err = r.s.wire.each(ctx, level, selectRows(r.number, segment, 0), restart,
			func(scan func(...any) error) error {
				w, err := scanRow(scan)
				if err != nil {
					return r.damaged(segment, w.number, err)
				}
				c.count(&w)
				if !w.gone && w.item > 0 {
					rows = append(rows, w)
				}
				return nil
			})
		if err != nil {
			return nil, failure(err)
		}
		if t.exists && c.whole(t.last) {
			return rows, nil
		}
	}
	return nil, r.damaged(segment, 0, errTorn)
}

// counter counts the rows of a segment: whether they are all that its batches have.
type counter struct {
	last   int64 // the number of the batch before
	number int64 // of the rows that come
	left   int   // of them
	torn   bool
}

// count takes a row. A number without a first row is no batch.
func (c *counter) count(w *row) {
	switch {
	case w.item == 0:
		c.torn = c.torn || c.left > 0 || w.before != c.last
		c.number, c.last, c.left = w.number, w.number, w.items
	case w.number == c.number:
		c.left--
	}
}

// whole reports whether nothing is missing up to the last batch.
func (c *counter) whole(last int64) bool { return !c.torn && c.left == 0 && c.last == last }

// addAgain appends the current state of what the rows describe, once each, as far as fits into a batch, and
// returns of how many rows. It leaves out what is gone, and rows that a later row replaces.
func (r *replica) addAgain(ctx context.Context, rows []row) (n int, err error) {
	if err := r.turn.Take(ctx, nil); err != nil {
		return 0, err
	}
	defer r.turn.Give()
	v := r.is.Load()
	if v == nil || !r.owns(v) {
		return 0, store.ErrFenced
	}
	o := &built{}
	there := map[string]bool{}
	for ; n < len(rows) && len(o.rows) < againAtOnce && o.size.bytes < mostBytes; n++ {
		w, err := r.again(v, &rows[n])
		if err != nil {
			return 0, err
		}
		if w != nil && !there[w.called()] {
			there[w.called()] = true
			o.add(w)
		}
	}
	if len(o.rows) == 0 {
		return n, nil
	}
	return n, r.add(context.WithoutCancel(ctx), v, v.holds, o)
}

// called names what the row describes: a batch has one row for each name.
func (w *row) called() string {
	return fmt.Sprintf("%s %q %q %d %s %q", w.kind, w.namespace, w.name, w.seq, w.id, w.key)
}

// again returns the row to append for an old one, with the current state; nil if a later row replaces it, or
// what it describes is gone. A row with a spec is appended while its job is there: later rows may lack it.
func (r *replica) again(v *version, old *row) (*row, error) {
	switch old.kind {
	case kindJob, kindPending:
		rec := v.holds.Record(old.ref())
		if rec == nil {
			return nil, nil
		}
		state, err := codec.DecodeState(old.value)
		if err != nil {
			return nil, err
		}
		now := recordRow(rec, true)
		if old.spec == nil && !bytes.Equal(codec.AppendState(nil, &state), now.value) {
			return nil, nil
		}
		return &now, nil
	case kindRun:
		id, err := store.ParseRunID(old.id)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		run := v.holds.Run(id)
		if run == nil {
			return nil, nil
		}
		was, err := codec.DecodeRun(old.value)
		if err != nil {
			return nil, err
		}
		now := runRow(run)
		if !bytes.Equal(codec.AppendRun(nil, &was), now.value) {
			return nil, nil
		}
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

// raise makes a segment the first of the log.
func (r *replica) raise(ctx context.Context, from, to int) error {
	if err := r.turn.Take(ctx, nil); err != nil {
		return err
	}
	defer r.turn.Give()
	v := r.is.Load()
	if v == nil || !r.owns(v) {
		return store.ErrFenced
	}
	r.s.changing.Lock()
	done, err := r.s.wire.cas(ctx, statement{`UPDATE $owners SET first = ? WHERE cluster = 0 AND partition = ? IF first = ?`,
		[]any{to, r.number, from}})
	r.s.changing.Unlock()
	switch {
	case err != nil:
		return failure(err)
	case !done:
		return store.ErrFenced // another owner has
	}
	next := *v
	for len(next.segments) > 1 && next.segments[0].number < to {
		next.segments = next.segments[1:]
	}
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
	return nil
}
