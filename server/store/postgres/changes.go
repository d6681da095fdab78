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

// changes are the batches of a group, each kind of change as the columns of one statement.
type changes struct {
	fence       fence
	deletes     refs
	puts        puts
	redrive     ids
	runs        runs
	at          map[runKey]int // where in runs
	trims       trims
	expires     []expire
	metaPuts    metaChanges // with a value
	metaDeletes metaChanges // without
}

// fence are the terms that must be in force.
type fence struct {
	partition    []int32
	epoch, nonce []int64
}

type refs struct {
	partition       []int32
	namespace, name []string
	seq             []int64
}

func (r *refs) add(partition int, ref store.Ref) {
	r.partition = append(r.partition, int32(partition))
	r.namespace, r.name, r.seq = append(r.namespace, ref.Namespace), append(r.name,
		ref.Name), append(r.seq, int64(ref.Seq))
}

type puts struct {
	refs
	uid                                  []pgtype.UUID
	priority, phase, cause               []int16
	due, next, scheduled, runSeq, runDue []int64
	queue                                []string
	live                                 []bool
	attempt                              []int32
	state, spec                          [][]byte
	labels                               []string
}

// ids are identities of runs.
type ids struct {
	refs
	uid       []pgtype.UUID
	scheduled []int64
	cause     []int16
}

func (c *ids) add(partition int, k carillon.Key, id *store.RunID) {
	c.refs.add(partition, store.Ref{Key: k, Seq: id.Seq})
	c.uid, c.scheduled, c.cause = append(c.uid, uuid(id.UID)), append(c.scheduled,
		id.Scheduled), append(c.cause, int16(id.Cause))
}

type runs struct {
	ids
	status                     []int16
	attempt                    []int32
	started, finished, expires []int64
	record                     [][]byte
}

type runKey struct {
	partition int
	id        store.RunID
}

type trims struct {
	refs
	keep []int64
}

type expire struct {
	partition int
	store.Expire
}

type metaChanges struct {
	partition  []int32
	kind       []int16
	key, value [][]byte
}

func uuid(u carillon.UID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: true} }

// add takes a partition's batch.
func (c *changes) add(s *shard, b *store.Batch) error {
	c.fence.partition = append(c.fence.partition, int32(s.partition))
	c.fence.epoch, c.fence.nonce = append(c.fence.epoch, int64(s.term.Epoch)), append(c.fence.nonce,
		int64(s.term.Nonce))
	for _, ref := range b.Deletes {
		c.deletes.add(s.partition, ref)
	}
	for i := range b.Puts {
		if err := c.puts.put(s.partition, &b.Puts[i]); err != nil {
			return err
		}
	}
	for i := range b.Redrive {
		c.redrive.add(s.partition, b.Redrive[i].Key, &b.Redrive[i].ID)
	}
	for i := range b.Runs {
		c.addRun(s.partition, &b.Runs[i])
	}
	for _, t := range b.Trims {
		c.trims.add(s.partition, store.Ref{Key: t.Key})
		c.trims.keep = append(c.trims.keep, int64(t.Keep))
	}
	if b.Expire != nil {
		c.expires = append(c.expires, expire{s.partition, *b.Expire})
	}
	for i := range b.MetaRecords {
		if b.MetaRecords[i].Value == nil {
			c.metaDeletes.add(s.partition, &b.MetaRecords[i])
		} else {
			c.metaPuts.add(s.partition, &b.MetaRecords[i])
		}
	}
	return nil
}

func (c *metaChanges) add(partition int, x *store.MetaRecord) {
	c.partition, c.kind = append(c.partition, int32(partition)), append(c.kind, int16(x.Kind))
	c.key, c.value = append(c.key, []byte(x.Key)), append(c.value, x.Value)
}

func (p *puts) put(partition int, r *store.Record) error {
	s := &r.State
	labels, err := labelsOf(r.Spec)
	if err != nil {
		return fmt.Errorf("store: the labels of %s: %w", r.Key, err)
	}
	queue := ""
	if s.Phase == carillon.PhaseStaged {
		queue = queueText(s.Queue)
	}
	p.add(partition, r.Ref)
	p.uid, p.priority, p.phase = append(p.uid, uuid(s.UID)), append(p.priority,
		int16(s.Priority)), append(p.phase, int16(s.Phase))
	p.due, p.next, p.queue = append(p.due, s.Due), append(p.next, s.Next), append(p.queue, queue)
	p.live, p.scheduled, p.cause = append(p.live, s.Run.Live), append(p.scheduled,
		s.Run.Scheduled), append(p.cause, int16(s.Run.Cause))
	p.runSeq, p.runDue = append(p.runSeq, int64(s.Run.Seq)), append(p.runDue, s.Run.Due)
	p.attempt, p.state = append(p.attempt, int32(s.Run.Attempt)), append(p.state, codec.AppendState([]byte{}, s))
	p.spec, p.labels = append(p.spec, r.Spec), append(p.labels, labels)
	return nil
}

// addRun takes a finished run; the last one of an identity stays.
func (c *changes) addRun(partition int, r *store.RunRecord) {
	if c.at == nil {
		c.at = map[runKey]int{}
	}
	key := runKey{partition, r.ID}
	record := codec.AppendRun([]byte{}, r)
	if at, ok := c.at[key]; ok {
		c.runs.status[at] = -1 // left out by the statement
	}
	c.at[key] = len(c.runs.status)
	c.runs.add(partition, r.Key, &r.ID)
	c.runs.status, c.runs.attempt = append(c.runs.status, int16(r.Status)), append(c.runs.attempt,
		int32(r.Attempt))
	c.runs.started, c.runs.finished = append(c.runs.started, r.Started), append(c.runs.finished, r.Finished)
	c.runs.expires, c.runs.record = append(c.runs.expires, r.Expires), append(c.runs.record, record)
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

	// Status is hidden from the planner, who would read the index of all dead runs of the namespace.
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
WHERE r.status >= 0
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

// statements are the group as one message: the fence, and what there is to do.
func (c *changes) statements() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(fenceSQL, c.fence.partition, c.fence.epoch, c.fence.nonce)
	if d := &c.deletes; len(d.seq) > 0 {
		b.Queue(deleteSQL, d.partition, d.namespace, d.name, d.seq)
	}
	if p := &c.puts; len(p.seq) > 0 {
		b.Queue(putSQL, p.partition, p.namespace, p.name, p.seq, p.uid, p.priority, p.phase, p.due, p.next,
			p.queue, p.live, p.scheduled,
			p.cause, p.runSeq, p.runDue, p.attempt, p.state, p.spec, p.labels)
	}
	if r := &c.redrive; len(r.seq) > 0 {
		b.Queue(redriveSQL, r.partition, r.namespace, r.name, r.seq, r.uid, r.scheduled, r.cause)
	}
	if r := &c.runs; len(r.seq) > 0 {
		b.Queue(runSQL, r.partition, r.namespace, r.name, r.seq, r.uid, r.scheduled, r.cause, r.status,
			r.attempt, r.started, r.finished,
			r.expires, r.record)
	}
	if t := &c.trims; len(t.keep) > 0 {
		b.Queue(trimSQL, t.partition, t.namespace, t.name, t.keep)
	}
	for _, e := range c.expires {
		b.Queue(expireSQL, e.partition, e.Before, int64(e.Most), int64(e.Limit))
	}
	if g := &c.metaDeletes; len(g.kind) > 0 {
		b.Queue(metaDeleteSQL, g.partition, g.kind, g.key)
	}
	if s := &c.metaPuts; len(s.kind) > 0 {
		b.Queue(metaPutSQL, s.partition, s.kind, s.key, s.value)
	}
	return b
}
