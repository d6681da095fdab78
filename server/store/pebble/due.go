package pebble

import (
	"errors"
	"math"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// due scans the due index of a priority, which is empty before low. As far as the scan shows, nothing is due
// before found.
func (v *view) due(q store.DueQuery, low int64) (out []store.Record, found int64, err error) {
	found = math.MinInt64
	if q.Limit <= 0 {
		return nil, found, nil
	}
	lower, whole := v.dueStart(q, low)
	first := int64(math.MaxInt64)
	err = eachLeft(v.source, lower, v.dueEnd(q), func(key, value []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen+1:]}
		due, ref := c.Time(), c.Ref()
		if err := c.End(); err != nil {
			return false, err
		}
		first = min(first, due)
		if !v.left(ref) {
			return true, nil // what cannot be written cannot be dispatched
		}
		r, err := v.fromBody(ref, value, q.MaxSpec)
		out = append(out, r)
		return len(out) < q.Limit, err
	})
	if whole && err == nil {
		found = min(first, after(q.Until))
	}
	return out, found, err
}

// after returns the next time after t, if there is one.
func after(t int64) int64 {
	if t == math.MaxInt64 {
		return t
	}
	return t + 1
}

// dueStart returns where a scan begins; whole: it leaves out nothing but what is known to be empty.
func (v *view) dueStart(q store.DueQuery, low int64) (lower []byte, whole bool) {
	lower = ordered.AppendTime(append(appendHead(nil, v.partition, kindDue), q.Priority), low)
	if q.After == (store.Cursor{}) || q.After.Due < low {
		return lower, true
	}
	return append(appendDueKey(nil, v.partition, q.Priority, q.After.Due, q.After.Ref), 0), false
}

// dueEnd returns the key that a scan ends before.
func (v *view) dueEnd(q store.DueQuery) []byte {
	prefix := append(appendHead(nil, v.partition, kindDue), q.Priority)
	if q.Until == math.MaxInt64 {
		return ordered.After(prefix)
	}
	return ordered.AppendTime(prefix, q.Until+1)
}

// staged scans the index of what is staged under a queue.
func (v *view) staged(q store.StagedQuery) (out []store.Record, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	lower, upper := bounds(ordered.AppendText(appendHead(nil, v.partition, kindStaged), q.Queue))
	head := len(lower) + 1 // the priority
	if q.After != (store.Cursor{}) {
		lower = append(appendStagedKey(nil, v.partition, q.Queue, q.After.Priority, q.After.Due, q.After.Ref), 0)
	}
	err = eachLeft(v.source, lower, upper, func(key, value []byte) (bool, error) {
		if len(key) < head {
			return false, errKey
		}
		c := ordered.Cutter{B: key[head:]}
		c.Time()
		ref := c.Ref()
		if err := c.End(); err != nil {
			return false, err
		}
		if !v.left(ref) {
			return true, nil
		}
		r, err := v.stagedRecord(ref, value, q.MaxSpec)
		if errors.Is(err, store.ErrDamaged) {
			return true, nil
		}
		out = append(out, r)
		return len(out) < q.Limit, err
	})
	return out, err
}

// stagedRecord reads a staged record. An empty entry means that the due index has its body.
func (v *view) stagedRecord(ref store.Ref, body []byte, maxSpec int) (store.Record, error) {
	if len(body) > 0 {
		return v.fromBody(ref, body, maxSpec)
	}
	value, err := need(v.source, appendHeadKey(nil, v.partition, ref), "head", ref.Key)
	if err != nil {
		return store.Record{}, err
	}
	return v.recordOf(ref, value, maxSpec)
}
