package pebble

import (
	"errors"
	"fmt"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// history writes what b changes in the history.
func (w *builder) history(b *store.Batch) error {
	for _, r := range b.Redrive {
		if err := w.redrive(r); err != nil {
			return err
		}
	}
	if len(b.Runs) > 0 && w.part.historyFilter.ask() {
		if err := w.startHistoryFilter(); err != nil {
			return err
		}
	}
	if err := w.runs(b.Runs); err != nil {
		return err
	}
	for _, t := range b.Trims {
		if err := w.trim(t); err != nil {
			return err
		}
	}
	if b.Expire != nil {
		return w.expire(b.Expire)
	}
	return nil
}

// runs writes finished runs and replaces earlier records of them. The keys of a kind come together: those of
// runs that end together are beside each other, which makes them cheap to insert. That needs each run to be
// there once.
func (w *builder) runs(runs []store.RunRecord) error {
	if w.repeats && len(runs) > 1 {
		for i := range runs {
			if err := w.runs(runs[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range runs {
		if err := w.run(&runs[i]); err != nil {
			return err
		}
	}
	for i := range runs {
		r := &runs[i]
		w.key = appendAgeKey(w.key[:0], w.partition, r.Expires, &r.ID)
		if r.Status == carillon.RunDead {
			w.set(w.key, isDead)
		} else {
			w.retained++
			w.set(w.key, notDead)
		}
	}
	for i := range runs {
		w.key = appendFinishedKey(w.key[:0], w.partition, &runs[i])
		w.set(w.key, nil)
	}
	return nil
}

// run writes a finished run without its index entries, and removes those of an earlier record of it.
func (w *builder) run(r *store.RunRecord) error {
	w.key = appendHistoryKey(w.key[:0], w.partition, &r.ID)
	if !w.part.historyFilter.add(&r.ID, w.key) {
		old, ok, err := w.finished(&r.ID)
		if err != nil {
			return err
		}
		if ok {
			w.dropRunIndex(&old)
			w.key = appendHistoryKey(w.key[:0], w.partition, &r.ID)
		}
	}
	w.val = codec.AppendRun(w.val[:0], r)
	w.set(w.key, w.val)
	return nil
}

// Values of the age index.
var notDead, isDead = []byte{0}, []byte{1}

// startHistoryFilter puts the history filter in use at once if the history is empty. Otherwise that takes the
// scan that counts the history.
func (w *builder) startHistoryFilter() error {
	empty := true
	lower, upper := bounds(appendHead(nil, w.partition, kindAge))
	err := each(w.committed, lower, upper, func(_, _ []byte) (bool, error) {
		empty = false
		return false, nil
	})
	if err == nil && empty {
		w.part.historyFilter.begin(math.MinInt64)
	}
	return err
}

// finished reads a run of the history.
func (w *builder) finished(id *store.RunID) (r store.RunRecord, ok bool, err error) {
	w.key = appendHistoryKey(w.key[:0], w.partition, id)
	value, ok, err := get(w.read, w.key)
	if errors.Is(err, store.ErrDamaged) {
		return store.RunRecord{}, false, nil // a lost run must not prevent the write
	}
	if err != nil || !ok {
		return store.RunRecord{}, false, err
	}
	if r, err = codec.DecodeRun(value); err != nil {
		return store.RunRecord{}, false, fmt.Errorf("run %s: %w", id, err)
	}
	return r, true, nil
}

// dropRunIndex removes a run's index entries: each was set once.
func (w *builder) dropRunIndex(r *store.RunRecord) {
	w.key = appendAgeKey(w.key[:0], w.partition, r.Expires, &r.ID)
	w.drop(w.key, false)
	if r.Status != carillon.RunDead {
		w.retained--
	}
	w.key = appendFinishedKey(w.key[:0], w.partition, r)
	w.drop(w.key, false)
}

// dropRun removes a run from the history.
func (w *builder) dropRun(r *store.RunRecord) {
	w.dropRunIndex(r)
	w.key = appendHistoryKey(w.key[:0], w.partition, &r.ID)
	w.drop(w.key, true)
}

// redrive removes a dead run from the history.
func (w *builder) redrive(ref store.RunRef) error {
	r, ok, err := w.finished(&ref.ID)
	if err == nil && ok && r.Status == carillon.RunDead {
		w.dropRun(&r)
	}
	return err
}

// trim drops the oldest runs of a job beyond Keep. Dead ones neither count nor go.
func (w *builder) trim(t store.Trim) error {
	lower, upper := bounds(appendHistoryPrefix(nil, w.partition, t.Key))
	kept := 0
	return eachLeft(w.read, lower, upper, func(_, value []byte) (bool, error) {
		r, err := codec.DecodeRun(value)
		switch {
		case err != nil:
			return false, err
		case r.Key != t.Key, r.Status == carillon.RunDead:
			return true, nil
		case kept < t.Keep:
			kept++
			return true, nil
		}
		w.dropRun(&r)
		return true, nil
	})
}

// expire drops the runs whose retention has ended, and those beyond Most.
func (w *builder) expire(e *store.Expire) error {
	count, err := w.counted()
	if err != nil {
		return err
	}
	excess := count + w.retained - int64(e.Most)
	left := e.Limit
	lower, upper := bounds(appendHead(nil, w.partition, kindAge))
	return eachLeft(w.read, lower, upper, func(key, value []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen:]}
		expires := c.Time()
		if c.Bad || len(value) != 1 {
			return false, errKey
		}
		expired, dead := expires <= e.Before, value[0] != 0
		if left <= 0 || !expired && excess <= 0 {
			return false, nil
		}
		if !dead {
			excess--
		}
		if dead && !expired {
			return true, nil
		}
		left--
		id := cutRun(&c, w.partition)
		if err := c.End(); err != nil {
			return false, errKey
		}
		return true, w.dropAged(&id)
	})
}

// dropAged drops a run that the age index lists.
func (w *builder) dropAged(id *store.RunID) error {
	r, ok, err := w.finished(id)
	switch {
	case err != nil:
		return err
	case ok:
		w.dropRun(&r)
	case !w.read.lost.any(): // otherwise it may be lost
		return fmt.Errorf("run %s of the age index: %w", id, errKey)
	}
	return nil
}

// counted returns how many finished runs that are not dead there were before this batch.
func (w *builder) counted() (n int64, err error) {
	c := &w.part.runs
	if c.known.Load() {
		return c.n.Load(), nil
	}
	last := int64(math.MinInt64)
	lower, upper := bounds(appendHead(nil, w.partition, kindAge))
	err = eachLeft(w.committed, lower, upper, func(key, value []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen:]}
		c.Time() // the end of retention
		last = max(last, cutRun(&c, w.partition).Scheduled)
		if len(value) == 1 && value[0] == 0 {
			n++
		}
		return true, c.End()
	})
	if err != nil {
		return 0, err
	}
	w.part.historyFilter.begin(last)
	c.n.Store(n)
	c.known.Store(true)
	return n, nil
}
