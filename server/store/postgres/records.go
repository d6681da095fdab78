package postgres

import (
	"context"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// scanRecord reads namespace, name, seq, state and spec.
func scanRecord(row pgx.CollectableRow) (r store.Record, err error) {
	var seq int64
	var state []byte
	if err := row.Scan(&r.Namespace, &r.Name, &seq, &state, &r.Spec); err != nil {
		return r, err
	}
	r.Seq, r.Exists = uint64(seq), true
	r.State, err = codec.DecodeState(state)
	return r, err
}

// selectRecords begins a query of records, without specs longer than most (0 = any).
func (c *conditions) selectRecords(partition, most int) {
	spec := "spec"
	if most > 0 {
		spec = "CASE WHEN length(spec) <= " + c.arg(most) + " THEN spec END"
	}
	c.add("SELECT namespace, name, seq, state, ", spec, " FROM carillon_jobs WHERE partition = ",
		c.arg(partition))
}

const readSQL = `
SELECT d.at, j.state, j.spec
FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS d (partition, namespace, name, seq, at)
JOIN carillon_jobs j ON j.partition = d.partition AND j.namespace = d.namespace AND j.name = d.name AND j.seq = d.seq`

// Read returns the records of the refs, in their order.
func (s *shard) Read(ctx context.Context, list []store.Ref) ([]store.Record, error) {
	out, err := s.s.ReadAll(ctx, []store.Asked{{Shard: s, Refs: list}})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

var _ store.Reader = (*Store)(nil)

// ReadAll implements [store.Reader].
func (s *Store) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	out := make([][]store.Record, len(asked))
	var all columns
	var places []*store.Record
	for i, a := range asked {
		of, ok := a.Shard.(*shard)
		if !ok || of.s != s {
			return nil, store.ErrOtherStore
		}
		out[i] = make([]store.Record, len(a.Refs))
		for k, ref := range a.Refs {
			out[i][k].Ref = ref
			places = append(places, &out[i][k])
			all.addRef(of.partition, ref)
		}
	}
	if len(places) == 0 {
		return out, ctx.Err()
	}
	return out, s.read(ctx, all, places)
}

// read fills in the records that are there.
func (s *Store) read(ctx context.Context, all columns, places []*store.Record) error {
	type found struct {
		at   int64
		spec []byte
		store.State
	}
	rows, err := query(ctx, s, func(row pgx.CollectableRow) (f found, err error) {
		var state []byte
		if err := row.Scan(&f.at, &state, &f.spec); err != nil {
			return f, err
		}
		f.State, err = codec.DecodeState(state)
		return f, err
	}, readSQL, all.after()...)
	for _, f := range rows {
		r := places[f.at-1]
		r.Exists, r.Spec, r.State = true, f.spec, f.State
	}
	return err
}

// List returns jobs, and pending runs, in the order of refs.
func (s *shard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	if q.Limit <= 0 || !isText(q.Namespace) || strings.Contains(q.Prefix, "\x00") ||
		q.PendingOf != nil && !isText(q.PendingOf.Namespace+q.PendingOf.Name) {
		return nil, ctx.Err()
	}
	var c conditions
	if err := c.list(s.partition, q); err != nil {
		return nil, err
	}
	return query(ctx, s.s, scanRecord, string(c.sql), c.args...)
}

func (c *conditions) list(partition int, q store.ListQuery) error {
	switch {
	case q.FirstOfEach:
		c.firstOfEach(partition, q)
		return nil
	case q.PendingOf != nil:
		c.pendingOf(partition, q)
		return nil
	case !q.Pending:
		return c.listed(partition, q, jobsOnly)
	case !q.ByPhase():
		return c.listed(partition, q, "")
	}
	// Jobs and pending runs of a phase have indexes of their own.
	c.add("(")
	if err := c.listed(partition, q, jobsOnly); err != nil {
		return err
	}
	c.add(") UNION ALL (")
	if err := c.listed(partition, q, " AND seq <> 0"); err != nil {
		return err
	}
	c.add(") ORDER BY namespace, name, seq LIMIT ", c.arg(q.Limit))
	return nil
}

const jobsOnly = " AND seq = 0"

// listed selects those of the records that are of a kind.
func (c *conditions) listed(partition int, q store.ListQuery, kind string) error {
	c.selectRecords(partition, q.MaxSpec)
	c.add(kind)
	if q.Namespace != "" {
		c.add(" AND namespace = ", c.arg(q.Namespace))
	}
	c.isAfter(q, kind != jobsOnly)
	c.hasPrefix(q.Prefix)
	c.inPhase(q)
	c.add(" ORDER BY namespace, name, seq LIMIT ", c.arg(q.Limit))
	return nil
}

// inPhase asks for a phase. A plan for any phase would not use the index of those that are not scheduled.
func (c *conditions) inPhase(q store.ListQuery) {
	if q.Phase != nil {
		c.add(" AND phase = ", c.arg(int16(*q.Phase)))
	}
	if q.ByPhase() {
		c.add(" AND phase <> 0")
	}
}

// pendingOf asks for the pending runs of a job.
func (c *conditions) pendingOf(partition int, q store.ListQuery) {
	c.selectRecords(partition, q.MaxSpec)
	c.add(" AND namespace = ", c.arg(q.PendingOf.Namespace), " AND name = ", c.arg(q.PendingOf.Name),
		" AND seq > ", c.arg(int64(min(q.AfterSeq, math.MaxInt64))))
	c.inPhase(q)
	c.add(" ORDER BY seq LIMIT ", c.arg(q.Limit))
}

// firstOfEach asks for the first job of each namespace, one step in the index for each: "SELECT DISTINCT" and
// "GROUP BY" would read all jobs.
func (c *conditions) firstOfEach(partition int, q store.ListQuery) {
	first := func(after ...string) {
		c.add("(")
		c.selectRecords(partition, q.MaxSpec)
		c.add(" AND seq = 0")
		c.add(after...)
		c.add(" ORDER BY namespace, name LIMIT 1)")
	}
	c.add("WITH RECURSIVE found (at, namespace, name, seq, state, spec) AS (SELECT 1 AS at, j.* FROM ")
	switch {
	case q.After == "":
		first()
	case isText(q.After):
		first(" AND namespace > ", c.arg(q.After))
	default: // bytes are compared, without the help of the index
		first(" AND convert_to(namespace, 'UTF8') > ", c.arg([]byte(q.After)), "::bytea")
	}
	c.add(" j UNION ALL SELECT found.at + 1, j.* FROM found CROSS JOIN LATERAL ")
	first(" AND namespace > found.namespace")
	c.add(" j WHERE found.at < ", c.arg(q.Limit),
		") SELECT namespace, name, seq, state, spec FROM found ORDER BY at")
}

// isText reports whether the server can hold a text: nothing that it has is one that it cannot.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// isAfter asks for what is after a place in the list. Only pending runs are also compared by their number. If
// the place is not text for the server, bytes are compared, without the help of the index.
func (c *conditions) isAfter(q store.ListQuery, pending bool) {
	at, ok := q.Place()
	if !ok {
		return
	}
	var columns, values string
	switch {
	case !isText(at.Namespace) || !isText(at.Name):
		columns = "convert_to(namespace, 'UTF8'), convert_to(name, 'UTF8')"
		values = c.arg([]byte(at.Namespace)) + "::bytea, " + c.arg([]byte(at.Name)) + "::bytea"
	case q.Namespace != "":
		columns, values = "name", c.arg(at.Name)
	default:
		columns, values = "namespace, name", c.arg(at.Namespace)+", "+c.arg(at.Name)
	}
	if pending {
		columns, values = columns+", seq", values+", "+c.arg(int64(min(at.Seq, math.MaxInt64)))
	}
	c.add(" AND (", columns, ") > (", values, ")")
}

// hasPrefix asks for names that begin with a prefix. A prefix that ends within a character is not text for
// the server: names are then compared as bytes, without the help of the index.
func (c *conditions) hasPrefix(prefix string) {
	if !utf8.ValidString(prefix) {
		c.add(" AND substring(convert_to(name, 'UTF8') FROM 1 FOR ", c.arg(len(prefix)), "::int) = ",
			c.arg([]byte(prefix)), "::bytea")
		return
	}
	if prefix == "" {
		return
	}
	c.add(" AND name >= ", c.arg(prefix))
	if end := prefixEnd(prefix); end != "" {
		c.add(" AND name < ", c.arg(end))
	}
}

// prefixEnd is the first text after all that begin with a prefix; empty if there is none.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == 0xd7ff: // what follows is not for text
			return prefix + "\ue000"
		case last < utf8.MaxRune:
			return prefix + string(last+1)
		}
	}
	return ""
}

// Due returns records of one priority in (due, ref) order.
func (s *shard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	if q.Limit <= 0 {
		return nil, ctx.Err()
	}
	var c conditions
	c.due(s.partition, q)
	return query(ctx, s.s, scanRecord, string(c.sql), c.args...)
}

func (c *conditions) due(partition int, q store.DueQuery) {
	c.selectRecords(partition, q.MaxSpec)
	c.add(" AND class = ", c.arg(int16(q.Priority)), " AND due IS NOT NULL AND due <= ", c.arg(q.Until))
	if at := q.After; at != (store.Cursor{}) {
		c.add(" AND (due, namespace, name, seq) > (", c.arg(at.Due), ", ", c.arg(at.Ref.Namespace), ", ",
			c.arg(at.Ref.Name), ", ",
			c.arg(int64(at.Ref.Seq)), ")")
	}
	c.add(" ORDER BY due, namespace, name, seq LIMIT ", c.arg(q.Limit))
}

// Staged returns the records parked under a queue in (priority, run due, ref) order.
func (s *shard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	if q.Limit <= 0 {
		return nil, ctx.Err()
	}
	var c conditions
	c.staged(s.partition, q)
	return query(ctx, s.s, scanRecord, string(c.sql), c.args...)
}

func (c *conditions) staged(partition int, q store.StagedQuery) {
	c.selectRecords(partition, q.MaxSpec)
	c.add(" AND phase = 2 AND queue = ", c.arg(queueText(q.Queue)))
	if at := q.After; at != (store.Cursor{}) {
		c.add(" AND (class, run_due, namespace, name, seq) > (", c.arg(int16(at.Priority)), ", ",
			c.arg(at.Due), ", ", c.arg(at.Ref.Namespace), ", ", c.arg(at.Ref.Name), ", ",
			c.arg(int64(at.Ref.Seq)), ")")
	}
	c.add(" ORDER BY class, run_due, namespace, name, seq LIMIT ", c.arg(q.Limit))
}

const liveSQL = `
SELECT namespace, name, seq FROM carillon_jobs
WHERE live AND partition = $1 AND uid = $2 AND run_scheduled = $3 AND run_cause = $4 AND run_seq = $5 LIMIT 1`

// Live finds the record whose unfinished run has the id.
func (s *shard) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	if int(id.Partition) != s.partition {
		return ref, false, ctx.Err()
	}
	found, err := query(ctx, s.s, func(row pgx.CollectableRow) (ref store.Ref, err error) {
		var seq int64
		err = row.Scan(&ref.Namespace, &ref.Name, &seq)
		ref.Seq = uint64(seq)
		return ref, err
	}, liveSQL, s.partition, uuid(id.UID), id.Scheduled, int16(id.Cause), int64(id.Seq))
	if err != nil || len(found) == 0 {
		return ref, false, err
	}
	if len(found) > 1 {
		return ref, false, errors.New("store: PostgreSQL gave more rows than asked for")
	}
	return found[0], true, nil
}
