package pebble

import (
	"bytes"
	"fmt"
	"math"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// runs reads the history: one run, a job's, all, or those of a namespace by their status. A cursor is a key
// without its head.
func (v *view) runs(q store.RunQuery) ([]store.RunRecord, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	switch {
	case q.ID != nil:
		return v.oneRun(q.ID)
	case q.Limit <= 0:
		return nil, nil
	case q.Job != nil:
		return v.historyRuns(q, appendHistoryPrefix(nil, v.partition, *q.Job), func(r *store.RunRecord) bool {
			// Two jobs may share a hash.
			return r.Key == *q.Job && (q.Status == nil || r.Status == *q.Status) && q.Within(r.Finished)
		})
	case q.All:
		return v.historyRuns(q, appendHead(nil, v.partition, kindHistory),
			func(*store.RunRecord) bool { return true })
	}
	return v.endedRuns(q)
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

// historyRuns scans a part of the history for what is wanted; of each job the newest scheduled first.
func (v *view) historyRuns(q store.RunQuery, prefix []byte,
	wanted func(*store.RunRecord) bool) (out []store.RunRecord, err error) {
	lower, upper := bounds(prefix)
	if q.After != nil {
		lower = append(append(appendHead(nil, v.partition, kindHistory), q.After...), 0)
	}
	err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
		r, err := decodeRun(append([]byte(nil), value...), key)
		if err != nil {
			return false, err
		}
		if wanted(&r) {
			out = append(out, r)
		}
		return len(out) < q.Limit, nil
	})
	return out, err
}

// endedRuns scans the runs of a namespace that ended with a status, newest finished first.
func (v *view) endedRuns(q store.RunQuery) (out []store.RunRecord, err error) {
	lower, upper := bounds(appendFinishedPrefix(nil, v.partition, *q.Status, q.Namespace))
	fixed := len(lower) + 8 // and the time it finished
	if q.Since != 0 {
		_, upper = bounds(ordered.AppendTimeDesc(bytes.Clone(lower), q.Since))
	}
	if q.Until == math.MinInt64 {
		return nil, nil
	}
	if q.Until != 0 {
		lower = ordered.AppendTimeDesc(lower, q.Until-1)
	}
	if q.After != nil {
		past := append(append(appendHead(nil, v.partition, kindFinished), q.After...), 0)
		if bytes.Compare(past, lower) > 0 {
			lower = past
		}
	}
	err = each(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		c := ordered.Cutter{B: key[min(fixed, len(key)):]}
		id := cutRun(&c, v.partition)
		if err := c.End(); err != nil {
			return false, err
		}
		value, ok, err := get(v.source, appendHistoryKey(nil, v.partition, &id))
		if err == nil && !ok {
			err = fmt.Errorf("finished run %s of the list: %w", &id, errKey)
		}
		if err != nil {
			return false, err
		}
		r, err := decodeRun(value, key)
		out = append(out, r)
		return len(out) < q.Limit, err
	})
	return out, err
}
