package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillonhq/carillon"
)

// row is a command that is not done yet.
type row struct {
	Seq        int64
	ID         string
	Namespace  string
	Name       string
	Job        *string // JSON; nil: the job is deleted
	GivenAt    time.Time
	Retried    int           // how often it was taken back from the rejects
	Tries      int           // that have failed
	RefusedFor time.Duration // since it was refused first, for a reason that may pass; -1: it was not
	parked     bool          // when it was read
	read       time.Time     // when that was: it must be begun soon after
}

func (r *row) key() carillon.Key { return carillon.Key{Namespace: r.Namespace, Name: r.Name} }

// request names the command: what was refused for good and is tried again has another name.
func (r *row) request() string {
	if r.Retried == 0 {
		return r.ID
	}
	return fmt.Sprint(r.ID, "/", r.Retried)
}

// bytes is what a row takes in memory, about.
func (r *row) bytes() int {
	if r.Job == nil {
		return len(r.Name)
	}
	return len(*r.Job) + len(r.Name)
}

// outcome is what became of a row.
type outcome struct {
	row     *row
	err     error // nil: it is done
	refused bool  // for good, by err
}

// Statements that find rows. None of them reads more than it returns, but for what is under way, however
// many rows wait. $1 are the rows under way, $2 bounds the number of what is found, $3 its bytes.
const (
	rowColumns = `seq, id::text, namespace, name, body, given_at, retried, tries,
		coalesce(extract(epoch FROM clock_timestamp() - refused_at), -1)::float8`
	withinBytes = `SELECT %s FROM (SELECT *, sum(coalesce(octet_length(body), 0)) OVER (ORDER BY place)
		- coalesce(octet_length(body), 0) AS before FROM (%s) AS found) AS sized WHERE before < $3 ORDER BY place`
	// Rows that were not tried yet, and which parked row of the same name goes before them.
	freshRows = `SELECT o.*, o.job::text AS body, o.seq AS place, (SELECT b.seq FROM carillon.outbox AS b
			WHERE b.parked AND b.namespace = o.namespace AND b.name = o.name AND b.seq < o.seq LIMIT 1) AS behind
		FROM carillon.outbox AS o WHERE NOT o.parked AND o.seq <> ALL ($1) ORDER BY o.seq LIMIT $2`
	// Rows that are due, each with some of those that follow it unless it has failed before. The time is in a
	// query of its own so that an index is used.
	dueRows = `SELECT f.*, f.job::text AS body, row_number() OVER (ORDER BY d.retry_at, d.seq, f.seq) AS place FROM (
			SELECT seq, namespace, name, tries, retry_at FROM carillon.outbox
			WHERE parked AND retry_at <= (SELECT clock_timestamp()) AND seq <> ALL ($1)
			ORDER BY retry_at LIMIT $2) AS d,
		LATERAL (SELECT * FROM carillon.outbox AS o WHERE o.parked AND o.namespace = d.namespace
			AND o.name = d.name AND o.seq >= d.seq AND o.seq <> ALL ($1) ORDER BY o.seq
			LIMIT CASE WHEN d.tries > 0 THEN 1 ELSE 32 END) AS f
		ORDER BY d.retry_at, d.seq, f.seq LIMIT $2`
	parkSQL = `UPDATE carillon.outbox SET parked = true WHERE NOT parked AND seq = ANY ($1)`
)

var (
	freshSQL = fmt.Sprintf(withinBytes, rowColumns+", behind", freshRows)
	dueSQL   = fmt.Sprintf(withinBytes, rowColumns+", NULL::bigint", dueRows)
)

// waiting are rows that must wait, since others of their names go before them.
type waiting struct {
	seqs              []int64
	namespaces, names []string // of each
}

// find reads rows that are not under way, by one of the two statements.
func find(ctx context.Context, pool *pgxpool.Pool, sql string, underWay []int64, most, bytes int) (
	all []*row, behind waiting, err error) {
	read := time.Now()
	rows, err := pool.Query(ctx, sql, underWay, most, bytes)
	if err != nil {
		return nil, waiting{}, err
	}
	r, refusedFor, after := row{}, 0.0, (*int64)(nil)
	_, err = pgx.ForEachRow(rows, []any{&r.Seq, &r.ID, &r.Namespace, &r.Name, &r.Job, &r.GivenAt, &r.Retried,
		&r.Tries, &refusedFor, &after}, func() error {
		if after != nil {
			behind.seqs = append(behind.seqs, r.Seq)
			behind.namespaces, behind.names = append(behind.namespaces, r.Namespace), append(behind.names, r.Name)
			return nil
		}
		one := r
		one.parked, one.read, one.RefusedFor = sql == dueSQL, read, time.Duration(refusedFor*float64(time.Second))
		all = append(all, &one)
		return nil
	})
	return all, behind, err
}

// park has rows wait. Another reader may have dealt with what went before them since they were read: then the
// first one is due.
func park(ctx context.Context, pool *pgxpool.Pool, w waiting) error {
	b := &pgx.Batch{}
	b.Queue(parkSQL, w.seqs)
	b.Queue(promoteSQL, w.namespaces, w.names)
	return pool.SendBatch(ctx, b).Close()
}

// Statements by which outcomes are recorded. A row that somebody else has dealt with is left alone.
const (
	doneSQL = `WITH gone AS (DELETE FROM carillon.outbox WHERE parked IN (false, true) AND seq = ANY ($1))
		INSERT INTO carillon.outbox_done (commands) VALUES ($2)`
	rejectSQL = `WITH gone AS (DELETE FROM carillon.outbox WHERE parked IN (false, true) AND seq = ANY ($1) RETURNING *)
		INSERT INTO carillon.outbox_rejects (seq, id, namespace, name, job, given_at, retried, kind, field, reason)
		SELECT seq, id, namespace, name, job, given_at, retried, r.kind, r.field, r.reason
		FROM gone JOIN unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS r (seq, kind, field, reason)
			USING (seq)
		ON CONFLICT (seq) DO UPDATE SET id = excluded.id, namespace = excluded.namespace, name = excluded.name,
			job = excluded.job, given_at = excluded.given_at, retried = excluded.retried,
			rejected_at = excluded.rejected_at, kind = excluded.kind, field = excluded.field, reason = excluded.reason`
	retrySQL = `UPDATE carillon.outbox AS o SET tries = o.tries + 1, problem = r.problem, parked = true,
			retry_at = clock_timestamp() + least(interval '15s', interval '250ms' * power(2, least(o.tries, 10))),
			refused_at = CASE WHEN r.refused THEN coalesce(o.refused_at, clock_timestamp()) ELSE o.refused_at END
		FROM unnest($1::bigint[], $2::text[], $3::bool[]) AS r (seq, problem, refused)
		WHERE o.parked IN (false, true) AND o.seq = r.seq`
	// Of the names $1, $2 the first row that is parked is due now, unless it has a time.
	promoteSQL = `UPDATE carillon.outbox AS o SET retry_at = clock_timestamp()
		FROM (SELECT DISTINCT (SELECT f.seq FROM carillon.outbox AS f WHERE f.parked AND f.namespace = k.namespace
				AND f.name = k.name ORDER BY f.seq LIMIT 1) AS seq
			FROM unnest($1::text[], $2::text[]) AS k (namespace, name)) AS first
		WHERE o.parked AND o.seq = first.seq AND o.retry_at IS NULL`
	// The same for $3 names after $1, $2, of which it returns the last one: somebody may have deleted rows.
	promoteAllSQL = `WITH RECURSIVE firsts AS (
			(SELECT namespace, name, seq, retry_at FROM carillon.outbox WHERE parked AND (namespace, name) > ($1, $2)
				ORDER BY namespace, name, seq LIMIT 1)
			UNION ALL
			SELECT n.* FROM firsts AS f, LATERAL (SELECT namespace, name, seq, retry_at FROM carillon.outbox AS o
				WHERE o.parked AND (o.namespace, o.name) > (f.namespace, f.name)
				ORDER BY o.namespace, o.name, o.seq LIMIT 1) AS n),
		page AS MATERIALIZED (SELECT * FROM firsts LIMIT $3),
		due AS (UPDATE carillon.outbox AS o SET retry_at = clock_timestamp() FROM page
			WHERE o.parked AND o.seq = page.seq AND page.retry_at IS NULL AND o.retry_at IS NULL)
		SELECT namespace, name FROM page ORDER BY namespace DESC, name DESC LIMIT 1`
)

// promoteAll finds names of which nothing is tried, some at a time.
func promoteAll(ctx context.Context, c rower, atATime int) error {
	for namespace, name := "", ""; ; {
		err := c.QueryRow(ctx, promoteAllSQL, namespace, name, atATime).Scan(&namespace, &name)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// settle records outcomes: in one transaction, or each in its own if the database cannot take what is said of
// one of them, which then stays for later.
func settle(ctx context.Context, pool *pgxpool.Pool, all []outcome) error {
	err := settleTogether(ctx, pool, all, text)
	if !isOfData(err) {
		return err
	}
	for i := range all {
		one := all[i : i+1]
		err := settleTogether(ctx, pool, one, ascii)
		if isOfData(err) {
			err = settleTogether(ctx, pool, []outcome{{row: one[0].row, err: errUnwritten}}, ascii)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errUnwritten is why a row stays.
var errUnwritten = errors.New("the database does not take what became of it")

// isOfData reports whether a statement failed by what was to be written.
func isOfData(err error) bool {
	class := codeOf(err)
	return strings.HasPrefix(class, "22") || strings.HasPrefix(class, "23")
}

// mostText is how much of a text is recorded, in bytes.
const mostText = 4096

// text is a text as a database can hold it, unless it knows fewer characters than Unicode has.
func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), mostText)], "\x00", ""), "?")
}

// ascii is a text as every database can hold it.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, text(s))
}

// settleTogether records outcomes in one transaction.
func settleTogether(ctx context.Context, pool *pgxpool.Pool, all []outcome, text func(string) string) error {
	var done, rejected, failed []int64
	var commands [][3]string
	var kinds, fields, reasons, problems, namespaces, names []string
	var passing []bool
	for _, o := range all {
		r := o.row
		if o.err == nil || o.refused {
			commands = append(commands, [3]string{r.Namespace, r.Name, r.request()})
			namespaces, names = append(namespaces, r.Namespace), append(names, r.Name)
		}
		switch e := carillonError(o.err); {
		case o.err == nil:
			done = append(done, r.Seq)
		case o.refused:
			rejected = append(rejected, r.Seq)
			kinds, fields = append(kinds, e.Kind.String()), append(fields, text(e.Field))
			reasons = append(reasons, text(e.Message))
		default:
			failed, problems = append(failed, r.Seq), append(problems, text(o.err.Error()))
			passing = append(passing, refusal(o.err) == mayPass)
		}
	}
	b := &pgx.Batch{}
	if len(rejected) > 0 {
		b.Queue(rejectSQL, rejected, kinds, fields, reasons)
	}
	if len(commands) > 0 {
		list, err := json.Marshal(commands)
		if err != nil {
			return fmt.Errorf("the commands that are done: %w", err)
		}
		b.Queue(doneSQL, done, string(list))
		b.Queue(promoteSQL, namespaces, names) // afterwards: it sees what is left
	}
	if len(failed) > 0 {
		b.Queue(retrySQL, failed, problems, passing)
	}
	return pool.SendBatch(ctx, b).Close()
}

// standing is how an outbox stands.
type standing struct {
	waiting int           // commands, up to countMost
	oldest  time.Duration // how long the first of them has waited
}

// countMost is up to where commands that wait are counted.
const countMost = 100_000

// count returns how the outbox stands.
func count(ctx context.Context, pool *pgxpool.Pool) (s standing, err error) {
	var seconds float64
	err = pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM (SELECT FROM carillon.outbox LIMIT $1) AS counted),
		coalesce((SELECT extract(epoch FROM clock_timestamp() - min(given_at)) FROM (
			(SELECT given_at FROM carillon.outbox WHERE NOT parked ORDER BY seq LIMIT 1) UNION ALL
			(SELECT given_at FROM carillon.outbox WHERE parked ORDER BY seq LIMIT 1)) AS firsts), 0)::float8`,
		countMost).Scan(&s.waiting, &seconds)
	s.oldest = max(0, time.Duration(seconds*float64(time.Second)))
	return s, err
}
