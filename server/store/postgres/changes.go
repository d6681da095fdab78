package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// columns are the arguments of a statement that takes an array for each column, and a row for each change.
type columns []pgtype.FlatArray[any]

// add adds a row.
func (c *columns) add(row ...any) {
	if *c == nil {
		*c = make(columns, len(row))
	}
	for i, value := range row {
		(*c)[i] = append((*c)[i], value)
	}
}

// addRef adds a row about a record, or a job.
func (c *columns) addRef(partition int, ref store.Ref, more ...any) {
	c.add(append([]any{int32(partition), ref.Namespace, ref.Name, int64(ref.Seq)}, more...)...)
}

// addTerm adds a row about a term.
func (c *columns) addTerm(partition int, t store.Term) {
	c.add(int32(partition), int64(t.Epoch), int64(t.Nonce))
}

// addRun adds a row about a run of a job.
func (c *columns) addRun(partition int, k carillon.Key, id *store.RunID, more ...any) {
	c.addRef(partition, store.Ref{Key: k, Seq: id.Seq},
		append([]any{uuid(id.UID), id.Scheduled, int16(id.Cause)}, more...)...)
}

// after returns the columns behind other arguments.
func (c columns) after(args ...any) []any {
	for _, column := range c {
		args = append(args, column)
	}
	return args
}

// changes are the batches of a group, each kind of change as one statement.
type changes struct {
	of      [len(inOrder)]columns
	expires [][]any
}

func uuid(u carillon.UID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: true} }

// add takes a partition's batch.
func (c *changes) add(s *shard, b *store.Batch) error {
	c.of[fences].addTerm(s.partition, s.term)
	for _, ref := range b.Deletes {
		c.of[deletes].addRef(s.partition, ref)
	}
	for i := range b.Puts {
		if err := c.put(s.partition, &b.Puts[i]); err != nil {
			return err
		}
	}
	for i := range b.Redrive {
		c.of[redrives].addRun(s.partition, b.Redrive[i].Key, &b.Redrive[i].ID)
	}
	last := make(map[store.RunID]int, len(b.Runs))
	for i := range b.Runs {
		last[b.Runs[i].ID] = i
	}
	for i := range b.Runs {
		if r := &b.Runs[i]; last[r.ID] == i { // the last one of an identity stays
			c.of[runs].addRun(s.partition, r.Key, &r.ID, int16(r.Status), int32(r.Attempt), r.Started, r.Finished,
				r.Expires, codec.AppendRun([]byte{}, r))
		}
	}
	for _, t := range b.Trims {
		c.of[trims].add(int32(s.partition), t.Key.Namespace, t.Key.Name, int64(t.Keep))
	}
	if e := b.Expire; e != nil {
		c.expires = append(c.expires, []any{s.partition, e.Before, int64(e.Most), int64(e.Limit)})
	}
	for _, x := range b.MetaRecords {
		if x.Value == nil {
			c.of[metaDeletes].add(int32(s.partition), int16(x.Kind), []byte(x.Key))
		} else {
			c.of[metaPuts].add(int32(s.partition), int16(x.Kind), []byte(x.Key), x.Value)
		}
	}
	return nil
}

func (c *changes) put(partition int, r *store.Record) error {
	s := &r.State
	labels, err := labelsOf(r.Spec)
	if err != nil {
		return fmt.Errorf("store: the labels of %s: %w", r.Key, err)
	}
	queue := ""
	if s.Phase == carillon.PhaseStaged {
		queue = queueText(s.Queue)
	}
	c.of[puts].addRef(partition, r.Ref, uuid(s.UID), int16(s.Priority), int16(s.Phase), s.Due, s.Next, queue,
		s.Run.Live, s.Run.Scheduled, int16(s.Run.Cause), int64(s.Run.Seq), s.Run.Due, int32(s.Run.Attempt),
		codec.AppendState([]byte{}, s), r.Spec, labels)
	return nil
}

// labelsOf are the labels of a spec as JSON; empty if it has none. What jsonb cannot hold, and the API does
// not let in, is left out.
func labelsOf(spec []byte) (string, error) {
	labels := codec.SpecLabels(spec)
	for key, value := range labels {
		if both := key + value; !utf8.ValidString(both) || strings.Contains(both, "\x00") {
			delete(labels, key)
		}
	}
	if len(labels) == 0 {
		return "", nil
	}
	b, err := json.Marshal(labels)
	return string(b), err
}

// queueText is a queue as text, which cannot hold the zero byte that stands between a queue's words:
// "default|worker|mail".
func queueText(queue string) string { return queueEscapes.Replace(queue) }

var queueEscapes = strings.NewReplacer("\x00", "|", "|", `\|`, `\`, `\\`)

// queueOf is the queue that queueText wrote.
func queueOf(text string) string { return queuePlain.Replace(text) }

var queuePlain = strings.NewReplacer(`\\`, `\`, `\|`, "|", "|", "\x00")

// The statements, in the order in which a group is done. An array for each column, a row for each change.
const (
	fenceSQL = `
WITH own AS MATERIALIZED (
	SELECT o.partition FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS t (partition, epoch, nonce)
	JOIN carillon_owners o ON o.partition = t.partition AND o.epoch = t.epoch AND o.nonce = t.nonce
	WHERE ` + inForceSQL + ` ORDER BY o.partition FOR SHARE OF o)
SELECT 1 / (count(*) = cardinality($1::int[]))::int,
	CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END FROM own`

	deleteSQL = `
DELETE FROM carillon_jobs j USING unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS d (partition, namespace, name, seq)
WHERE j.partition = d.partition AND j.namespace = d.namespace AND j.name = d.name AND (d.seq = 0 OR j.seq = d.seq)`

	putSQL = `
INSERT INTO carillon_jobs AS j (partition, namespace, name, seq, uid, class, phase, due, next, queue, live, run_scheduled,
	run_cause, run_seq, run_due, attempt, state, spec, labels)
SELECT p.partition, p.namespace, p.name, p.seq, p.uid, p.class, p.phase, NULLIF(p.due, 0), p.next, p.queue, p.live, p.run_scheduled,
	p.run_cause, p.run_seq, p.run_due, p.attempt, p.state, p.spec, NULLIF(p.labels, '')::jsonb
FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::smallint[], $7::smallint[], $8::bigint[], $9::bigint[],
	$10::text[], $11::boolean[], $12::bigint[], $13::smallint[], $14::bigint[], $15::bigint[], $16::int[], $17::bytea[],
	$18::bytea[], $19::text[])
	AS p (partition, namespace, name, seq, uid, class, phase, due, next, queue, live, run_scheduled, run_cause, run_seq,
	run_due, attempt, state, spec, labels)
ON CONFLICT (partition, namespace, name, seq) DO UPDATE SET uid = EXCLUDED.uid, class = EXCLUDED.class, phase = EXCLUDED.phase,
	due = EXCLUDED.due, next = EXCLUDED.next, queue = EXCLUDED.queue, live = EXCLUDED.live, run_scheduled = EXCLUDED.run_scheduled,
	run_cause = EXCLUDED.run_cause, run_seq = EXCLUDED.run_seq, run_due = EXCLUDED.run_due, attempt = EXCLUDED.attempt,
	state = EXCLUDED.state, spec = coalesce(EXCLUDED.spec, j.spec),
	labels = CASE WHEN EXCLUDED.spec IS NULL THEN j.labels ELSE EXCLUDED.labels END`

	// Status is hidden from the planner, who would read the list of all dead runs of the namespace.
	redriveSQL = `
DELETE FROM carillon_runs r
USING unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[], $7::smallint[])
	AS d (partition, namespace, name, seq, uid, scheduled, cause)
WHERE r.partition = d.partition AND r.uid = d.uid AND r.scheduled = d.scheduled AND r.cause = d.cause AND r.seq = d.seq
	AND r.namespace = d.namespace AND r.name = d.name AND r.status + 0 = 6`

	runSQL = `
INSERT INTO carillon_runs (partition, namespace, name, seq, uid, scheduled, cause, status, attempt, started, finished, expires, record)
SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[], $7::smallint[], $8::smallint[],
	$9::int[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bytea[])
	AS r (partition, namespace, name, seq, uid, scheduled, cause, status, attempt, started, finished, expires, record)
ON CONFLICT (partition, uid, scheduled, cause, seq) DO UPDATE SET namespace = EXCLUDED.namespace, name = EXCLUDED.name,
	status = EXCLUDED.status, attempt = EXCLUDED.attempt, started = EXCLUDED.started, finished = EXCLUDED.finished,
	expires = EXCLUDED.expires, record = EXCLUDED.record`

	trimSQL = `
DELETE FROM carillon_runs r USING unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS t (partition, namespace, name, keep)
CROSS JOIN LATERAL (
	SELECT o.uid, o.scheduled, o.cause, o.seq FROM carillon_runs o
	WHERE o.partition = t.partition AND o.namespace = t.namespace AND o.name = t.name AND o.status <> 6
	ORDER BY o.scheduled DESC, o.uid, o.cause, o.seq OFFSET t.keep) AS old
WHERE r.partition = t.partition AND r.uid = old.uid AND r.scheduled = old.scheduled AND r.cause = old.cause AND r.seq = old.seq`

	expireSQL = `
WITH ended AS MATERIALIZED (
	SELECT uid, scheduled, cause, seq, status FROM carillon_runs WHERE partition = $1 AND expires <= $2 ORDER BY expires LIMIT $4),
more AS MATERIALIZED (
	SELECT uid, scheduled, cause, seq, status FROM carillon_runs WHERE partition = $1 AND expires > $2 AND status <> 6
	ORDER BY expires
	LIMIT greatest(0, least($4 - (SELECT count(*) FROM ended), (SELECT count(*) FROM carillon_runs WHERE partition = $1 AND status <> 6)
		- (SELECT count(*) FROM ended WHERE status <> 6) - $3)))
DELETE FROM carillon_runs r USING (SELECT * FROM ended UNION ALL SELECT * FROM more) AS old
WHERE r.partition = $1 AND r.uid = old.uid AND r.scheduled = old.scheduled AND r.cause = old.cause AND r.seq = old.seq`

	metaDeleteSQL = `
DELETE FROM carillon_small s USING unnest($1::int[], $2::smallint[], $3::bytea[]) AS d (partition, kind, key)
WHERE s.partition = d.partition AND s.kind = d.kind AND s.key = d.key`

	metaPutSQL = `
INSERT INTO carillon_small (partition, kind, key, value)
SELECT * FROM unnest($1::int[], $2::smallint[], $3::bytea[], $4::bytea[])
ON CONFLICT (partition, kind, key) DO UPDATE SET value = EXCLUDED.value`
)

// Kinds of changes, in the order in which a group does them.
const (
	fences = iota // the terms that must be in force
	deletes
	puts
	redrives
	runs
	trims
	metaDeletes // without a value
	metaPuts    // with one
)

// inOrder has the statement of each kind.
var inOrder = [...]string{
	fences: fenceSQL, deletes: deleteSQL, puts: putSQL, redrives: redriveSQL, runs: runSQL, trims: trimSQL,
	metaDeletes: metaDeleteSQL, metaPuts: metaPutSQL,
}

// statements are the group as one message: the fence, and what there is to do.
func (c *changes) statements() *pgx.Batch {
	b := &pgx.Batch{}
	for kind, sql := range inOrder {
		if c.of[kind] != nil {
			b.Queue(sql, c.of[kind].after()...)
		}
	}
	for _, args := range c.expires {
		b.Queue(expireSQL, args...)
	}
	return b
}
