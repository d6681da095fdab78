package redis

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	s      *Store
	number int
	keys   []string
	term   store.Term
}

var _ store.Shard = (*shard)(nil)

// Bounds of one script that reads: while it runs, Redis does nothing else. What is asked for beyond them is
// read by more scripts, one after the other, and writes may come between.
const (
	pageItems = 1024    // members of an index
	pageBytes = 1 << 20 // of what is returned; it may be one item more
)

// call executes a script that reads.
func (s *shard) call(ctx context.Context, script *rueidis.Lua,
	keys, args []string) ([]rueidis.RedisMessage, error) {
	return ask(ctx, s.s, func(ctx context.Context) ([]rueidis.RedisMessage, error) {
		return script.Exec(ctx, s.s.client, keys, args).ToArray()
	})
}

// field reads one field of a hash; ok is false if it is not there.
func (s *shard) field(ctx context.Context, key int, field []byte) (value []byte, ok bool, err error) {
	value, err = ask(ctx, s.s, func(ctx context.Context) ([]byte, error) {
		read := s.s.client.B().Hget().Key(s.keys[key]).Field(string(field)).Build()
		return unlessNil(s.s.client.Do(ctx, read).AsBytes())
	})
	return value, value != nil, err
}

// record reads a record as a script returns it: its value, and its spec or nil.
func record(ref store.Ref, value, spec *rueidis.RedisMessage) (store.Record, error) {
	out := store.Record{Ref: ref}
	if value.IsNil() {
		return out, nil
	}
	b, err := value.AsBytes()
	if err != nil {
		return out, err
	}
	if out.State, err = parseRecord(b); err != nil {
		return out, fmt.Errorf("%s/%s: %w", ref.Namespace, ref.Name, err)
	}
	out.Exists = true
	if !spec.IsNil() {
		out.Spec, err = spec.AsBytes()
	}
	return out, err
}

// Read returns the records of the refs, in their order.
func (s *shard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	out := make([]store.Record, 0, len(refs))
	for len(out) < len(refs) {
		page := refs[len(out):min(len(refs), len(out)+pageItems)]
		args := make([]string, 1, 1+len(page))
		args[0] = strconv.Itoa(pageBytes)
		for _, r := range page {
			args = append(args, string(ordered.AppendRef(nil, r)))
		}
		got, err := s.call(ctx, readScript, s.keys[keyState:keySpec+1], args)
		if err != nil {
			return nil, err
		}
		if len(got) < 2 {
			return nil, fmt.Errorf("%w: a read answers nothing", store.ErrDamaged)
		}
		for i := 0; i+1 < len(got); i += 2 {
			r, err := record(page[i/2], &got[i], &got[i+1])
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, ctx.Err()
}

// scan is a read of an index whose members end in refs.
type scan struct {
	index    int
	from, to string
	skip     int // bytes of a member before its ref
	limit    int
	maxSpec  int
	phase    *carillon.Phase
	prefix   string // of the name, as it is encoded
}

// scan reads an index page by page until it has enough.
func (s *shard) scan(ctx context.Context, q scan) ([]store.Record, error) {
	phase := "-1"
	if q.phase != nil {
		phase = strconv.Itoa(int(*q.phase))
	}
	keys := []string{s.keys[q.index], s.keys[keyState], s.keys[keySpec]}
	var out []store.Record
	for len(out) < q.limit {
		members := pageItems
		if q.phase == nil && q.prefix == "" {
			members = min(members, q.limit-len(out))
		}
		got, err := s.call(ctx, recordsScript, keys,
			[]string{q.from, q.to, strconv.Itoa(q.limit - len(out)), strconv.Itoa(q.skip),
				strconv.Itoa(q.maxSpec), phase, q.prefix, strconv.Itoa(members), strconv.Itoa(pageBytes)})
		if err != nil {
			return nil, err
		}
		more, last, err := scanned(got)
		if err != nil {
			return nil, err
		}
		for i := 2; i+2 < len(got); i += 3 {
			r, err := scannedRecord(got[i : i+3])
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if !more {
			break
		}
		q.from = "(" + last
	}
	return out, ctx.Err()
}

// scanned reads the head of a page: whether the index goes on, and the last member that was looked at.
func scanned(page []rueidis.RedisMessage) (more bool, last string, err error) {
	if len(page) < 2 {
		return false, "", fmt.Errorf("%w: a page without its head", store.ErrDamaged)
	}
	n, err := page[0].AsInt64()
	if err != nil {
		return false, "", err
	}
	last, err = page[1].ToString()
	return n == 1 && last != "", last, err
}

// scannedRecord reads a record of a page: ref, value, spec.
func scannedRecord(m []rueidis.RedisMessage) (store.Record, error) {
	text, err := m[0].ToString()
	if err != nil {
		return store.Record{}, err
	}
	ref, err := parseRef([]byte(text))
	if err != nil {
		return store.Record{}, err
	}
	return record(ref, &m[1], &m[2])
}

// List returns jobs, and pending runs, in the order of refs.
func (s *shard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	switch {
	case q.FirstOfEach:
		return s.firstOfEach(ctx, q)
	case q.PendingOf != nil:
		at, _ := q.Place()
		w := scan{index: keyPending, from: "(" + string(ordered.AppendRef(nil, at)),
			to: after(appendJob(nil, *q.PendingOf)), limit: q.Limit, maxSpec: q.MaxSpec, phase: q.Phase}
		return s.scan(ctx, w)
	}
	jobs, err := s.scan(ctx, listScan(&q, false))
	if err != nil || !q.Pending {
		return jobs, err
	}
	pending, err := s.scan(ctx, listScan(&q, true))
	all := slices.Concat(jobs, pending)
	slices.SortFunc(all, func(a, b store.Record) int { return a.Compare(b.Ref) })
	return all[:min(len(all), max(q.Limit, 0))], err
}

// listScan is the part of an index that has the jobs, or the pending runs, of a query.
func listScan(q *store.ListQuery, pending bool) scan {
	w := scan{index: keyJobs, limit: q.Limit, maxSpec: q.MaxSpec, phase: q.Phase}
	var head []byte // of the members, before the ref
	switch {
	case q.ByPhase():
		w.index, w.phase, head = keyPhases, nil, []byte{byte(*q.Phase), 0}
		if pending {
			head[1] = 1
		}
	case pending:
		w.index = keyPending
	}
	w.skip = len(head)
	start := bytes.Clone(head)
	if q.Namespace != "" {
		start = ordered.AppendPrefix(ordered.AppendText(start, q.Namespace), q.Prefix)
	} else {
		w.prefix = string(ordered.AppendPrefix(nil, q.Prefix))
	}
	w.from, w.to = "["+string(start), after(start)
	if len(start) == 0 {
		w.from = "-"
	}
	if at, ok := q.Place(); ok {
		if seen := ordered.AppendRef(bytes.Clone(head), at); bytes.Compare(seen, start) > 0 {
			w.from = "(" + string(seen)
		}
	}
	return w
}

// firstOfEach returns the first job of each namespace after a namespace.
func (s *shard) firstOfEach(ctx context.Context, q store.ListQuery) (out []store.Record, err error) {
	keys := []string{s.keys[keyJobs], s.keys[keyState], s.keys[keySpec]}
	for after := string(ordered.AppendPrefix(nil, q.After)); len(out) < q.Limit; {
		got, err := s.call(ctx, firstsScript, keys, []string{after, strconv.Itoa(min(pageItems, q.Limit-len(out))),
			strconv.Itoa(q.MaxSpec), strconv.Itoa(pageBytes)})
		if err != nil {
			return nil, err
		}
		more, last, err := scanned(got)
		if err != nil {
			return nil, err
		}
		for i := 2; i+2 < len(got); i += 3 {
			r, err := scannedRecord(got[i : i+3])
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if !more {
			break
		}
		after = last
	}
	return out, ctx.Err()
}

// Due returns records of one priority in (due, ref) order.
func (s *shard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	from := ordered.AppendTime([]byte{'(', q.Priority}, q.After.Due)
	if from = ordered.AppendRef(from, q.After.Ref); q.After == (store.Cursor{}) {
		from = ordered.AppendTime([]byte{'[', q.Priority}, math.MinInt64)
	}
	return s.scan(ctx, scan{index: keyDue, from: string(from),
		to: after(ordered.AppendTime([]byte{q.Priority}, q.Until)), skip: 9, limit: q.Limit, maxSpec: q.MaxSpec})
}

// Staged returns the records parked under a queue in (priority, run due, ref) order.
func (s *shard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	from := ordered.AppendRef(appendStaged([]byte{'('}, q.Queue, q.After.Priority, q.After.Due), q.After.Ref)
	queue := ordered.AppendText(nil, q.Queue)
	if q.After == (store.Cursor{}) {
		from = append([]byte{'['}, queue...)
	}
	skip := len(queue) + 9
	return s.scan(ctx, scan{index: keyStaged, from: string(from), to: after(queue), skip: skip,
		limit: q.Limit, maxSpec: q.MaxSpec})
}

// Live finds the record whose unfinished run has the id.
func (s *shard) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	if int(id.Partition) != s.number {
		return store.Ref{}, false, ctx.Err()
	}
	value, ok, err := s.field(ctx, keyLive, appendRun(nil, &id))
	if err != nil || !ok {
		return store.Ref{}, false, err
	}
	ref, err = parseRef(value)
	return ref, err == nil, err
}

// parseRef decodes an entry of an index; its error says which.
func parseRef(entry []byte) (store.Ref, error) {
	ref, err := ordered.ParseRef(entry)
	if err != nil {
		return store.Ref{}, fmt.Errorf("entry %q of an index: %w", entry, err)
	}
	return ref, nil
}
