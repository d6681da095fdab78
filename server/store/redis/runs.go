package redis

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// pages is a read of an index whose members name values.
type pages struct {
	index, values int
	from, to      string
	first, last   int // bytes of a member that name its value, as Lua counts them
}

// pages reads an index page by page and calls f for each member, until f is false. Limit is how many are
// asked for at once.
func (s *shard) pages(ctx context.Context, q pages, limit int,
	f func(member string, value []byte) (bool, error)) error {
	for limit > 0 {
		most := min(limit, pageItems)
		got, err := s.call(ctx, valuesScript, []string{s.keys[q.index], s.keys[q.values]},
			[]string{q.from, q.to, strconv.Itoa(most),
				strconv.Itoa(q.first), strconv.Itoa(q.last), strconv.Itoa(pageBytes)})
		if err != nil {
			return err
		}
		if len(got) == 0 {
			return fmt.Errorf("%w: a page without its head", store.ErrDamaged)
		}
		cut, err := got[0].AsInt64()
		if err != nil {
			return err
		}
		last, err := told(got[1:], f)
		if err != nil || last == "" || cut == 0 && len(got)-1 < 2*most {
			return err
		}
		q.from = "(" + last
	}
	return ctx.Err()
}

// told calls f for each member of a page; last is empty if there was none, or f had enough.
func told(page []rueidis.RedisMessage,
	f func(member string, value []byte) (bool, error)) (last string, err error) {
	for i := 0; i+1 < len(page); i += 2 {
		if last, err = page[i].ToString(); err != nil {
			return "", err
		}
		if page[i+1].IsNil() {
			return "", fmt.Errorf("%w: an index entry without its record", store.ErrDamaged)
		}
		value, err := page[i+1].AsBytes()
		if err != nil {
			return "", err
		}
		if more, err := f(last, value); err != nil || !more {
			return "", err
		}
	}
	return last, nil
}

// Runs returns finished runs, newest first. The cursor of a run is where it stands in the index.
func (s *shard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if q.ID != nil {
		return s.runByID(ctx, q)
	}
	if q.All {
		return s.allRuns(ctx, q)
	}
	w, err := runPages(&q)
	if err != nil || q.Limit <= 0 {
		return nil, err
	}
	limit := q.Limit
	if q.Job != nil && (q.Status != nil || q.Since != 0 || q.Until != 0) {
		limit = max(limit, pageItems/4)
	}
	var out []store.RunRecord
	err = s.pages(ctx, w, min(limit, pageItems), func(member string, value []byte) (bool, error) {
		r, err := parseRunRecord(value)
		if err != nil {
			return false, err
		}
		if (q.Status == nil || r.Status == *q.Status) && q.Within(r.Finished) {
			r.Cursor = cursor(member, q.Job != nil)
			out = append(out, r)
		}
		return len(out) < q.Limit, nil
	})
	return out, err
}

// allRuns reads what is kept by the end of its retention, and then the dead runs. The cursor of a run is the
// key of its index, and where it stands there.
func (s *shard) allRuns(ctx context.Context, q store.RunQuery) (out []store.RunRecord, err error) {
	for _, index := range []int{keyAge, keyDeadAge} {
		w := pages{index: index, values: keyRuns, from: "-", to: "+", first: 8 + 1, last: -1}
		if len(q.After) > 0 && int(q.After[0]) == index {
			w.from = "(" + string(q.After[1:])
		} else if len(q.After) > 0 && int(q.After[0]) > index {
			continue
		}
		left := min(q.Limit-len(out), pageItems)
		err := s.pages(ctx, w, left, func(member string, value []byte) (bool, error) {
			r, err := parseRunRecord(value)
			if err != nil {
				return false, err
			}
			r.Cursor = append([]byte{byte(index)}, member...)
			out = append(out, r)
			return len(out) < q.Limit, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// runPages is the part of an index that has the runs of a query.
func runPages(q *store.RunQuery) (w pages, err error) {
	var prefix []byte
	if q.Job != nil {
		prefix = appendJob(nil, *q.Job)
		w = pages{index: keyHistory, values: keyRuns, first: len(prefix) + 1, last: -2}
	} else {
		prefix = ordered.AppendText([]byte{byte(*q.Status)}, q.Namespace)
		w = pages{index: keyFinished, values: keyRuns, first: len(prefix) + 8 + 1, last: -1}
	}
	from := prefix
	w.to = after(prefix)
	if q.Job == nil && q.Since != 0 {
		w.to = after(ordered.AppendTimeDesc(bytes.Clone(prefix), q.Since))
	}
	if q.Job == nil && q.Until != 0 {
		from = ordered.AppendTimeDesc(bytes.Clone(prefix), max(q.Until, math.MinInt64+1)-1)
	}
	w.from = "[" + string(from)
	if q.After != nil {
		if !bytes.HasPrefix(q.After, prefix) {
			return w, fmt.Errorf("%w: a cursor of another list", store.ErrDamaged)
		}
		if bytes.Compare(q.After, from) > 0 {
			w.from = "(" + string(q.After)
		}
	}
	return w, nil
}

// cursor is the place of a run in its index. In the history it is behind the run whether that is dead or not,
// so that a run that dies between two pages is not seen twice.
func cursor(member string, history bool) []byte {
	b := []byte(member)
	if history {
		b[len(b)-1] = math.MaxUint8
	}
	return b
}

func (s *shard) runByID(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if int(q.ID.Partition) != s.number {
		return nil, ctx.Err()
	}
	id := appendRun(nil, q.ID)
	value, ok, err := s.field(ctx, keyRuns, id)
	if err != nil || !ok {
		return nil, err
	}
	r, err := parseRunRecord(value)
	if err != nil {
		return nil, err
	}
	r.Cursor = append(append(appendJob(nil, r.Key), id...), math.MaxUint8)
	return []store.RunRecord{r}, nil
}

// MetaRecords returns the metadata records of a kind in key order.
func (s *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	prefix := metaRecordKey(q.Kind, q.Prefix)
	w := pages{index: keyMetaRecordKeys, values: keyMetaRecords, from: "[" + prefix,
		to: after([]byte(prefix)), first: 1, last: -1}
	if seen := metaRecordKey(q.Kind, q.After); q.After != "" && seen >= prefix {
		w.from = "(" + seen
	}
	var out []store.MetaRecord
	err := s.pages(ctx, w, q.Limit, func(member string, value []byte) (bool, error) {
		out = append(out, store.MetaRecord{Kind: q.Kind, Key: member[1:], Value: value})
		return len(out) < q.Limit, nil
	})
	return out, err
}
