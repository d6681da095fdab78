package pebble

import (
	"fmt"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// runs reads the history: one run, a job's, or the dead ones of a namespace. A cursor is a key without its
// head.
func (v *view) runs(q store.RunQuery) ([]store.RunRecord, error) {
	switch {
	case q.ID != nil:
		return v.oneRun(q.ID)
	case q.Limit <= 0:
		return nil, nil
	case q.Job != nil:
		return v.jobRuns(q)
	}
	return v.deadRuns(q)
}

// oneRun reads a run by its id, which leads to its key.
func (v *view) oneRun(id *store.RunID) ([]store.RunRecord, error) {
	key := appendHistoryKey(nil, v.partition, id)
	value, ok, err := get(v.source, key)
	if err != nil || !ok {
		return nil, err
	}
	r, err := decodeRun(value, key)
	if err != nil || r.ID != *id {
		return nil, err
	}
	return []store.RunRecord{r}, nil
}

// decodeRun decodes a run; its cursor is the key that it was found by.
func decodeRun(value, key []byte) (store.RunRecord, error) {
	r, err := codec.DecodeRun(value)
	if err != nil {
		return r, fmt.Errorf("finished run: %w", err)
	}
	r.Cursor = append([]byte(nil), key[headLen:]...)
	return r, nil
}

// jobRuns scans the history of a job, newest scheduled first.
func (v *view) jobRuns(q store.RunQuery) (out []store.RunRecord, err error) {
	lower, upper := bounds(appendHistoryPrefix(nil, v.partition, *q.Job))
	if q.After != nil {
		lower = append(append(appendHead(nil, v.partition, kindHistory), q.After...), 0)
	}
	err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
		r, err := decodeRun(append([]byte(nil), value...), key)
		if err != nil {
			return false, err
		}
		if r.Key == *q.Job && (q.Status == nil || r.Status == *q.Status) { // two jobs may share a hash
			out = append(out, r)
		}
		return len(out) < q.Limit, nil
	})
	return out, err
}

// deadRuns scans the dead runs of a namespace, newest finished first.
func (v *view) deadRuns(q store.RunQuery) (out []store.RunRecord, err error) {
	lower, upper := bounds(ordered.AppendText(appendHead(nil, v.partition, kindDead), q.Namespace))
	fixed := len(lower) + 8 // and the time it finished
	if q.After != nil {
		lower = append(append(appendHead(nil, v.partition, kindDead), q.After...), 0)
	}
	err = each(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		c := ordered.Cutter{B: key[min(fixed, len(key)):]}
		id := cutRun(&c, v.partition)
		if err := c.End(); err != nil {
			return false, err
		}
		value, ok, err := get(v.source, appendHistoryKey(nil, v.partition, &id))
		if err == nil && !ok {
			err = fmt.Errorf("dead run: %w", errKey)
		}
		if err != nil {
			return false, err
		}
		r, err := decodeRun(value, key)
		if err != nil {
			return false, err
		}
		if q.Status == nil || r.Status == *q.Status {
			out = append(out, r)
		}
		return len(out) < q.Limit, nil
	})
	return out, err
}
