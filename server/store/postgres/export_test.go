package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillonhq/carillon/server/store"
)

// CommitWithin sets how long a group may be on the wire.
func (s *Store) CommitWithin(d time.Duration) { s.commitTimeout = d }

// Refused is why a server of a version cannot keep a store; empty if it can.
func Refused(version int) string {
	is := settings{VersionNumber: version, VersionText: "some", Encoding: "UTF8"}
	if err := is.refused(); err != nil {
		return err.Error()
	}
	return ""
}

// Query is a statement with its arguments.
type Query struct{ c conditions }

// Queries are the queries of the due and staged indexes that begin after a record, by the name of their
// index.
func Queries(after store.Cursor) map[string]Query {
	var due, staged conditions
	due.due(3, store.DueQuery{Priority: 2, After: after, Until: 4000, Limit: 100, MaxSpec: 1024})
	staged.staged(3, store.StagedQuery{Queue: "default\x00worker\x00mail", After: after,
		Limit: 100, MaxSpec: 1024})
	return map[string]Query{"due": {due}, "staged": {staged}}
}

// List is the query of a list.
func List(t testing.TB, q store.ListQuery) Query {
	t.Helper()
	var c conditions
	if err := c.list(3, q); err != nil {
		t.Fatal(err)
	}
	return Query{c}
}

// Ended is the query of finished runs.
func Ended(q store.RunQuery, after *store.RunRecord) Query {
	var c conditions
	c.add(runsOf, c.arg(3))
	c.endedRuns(q, after)
	return Query{c}
}

// Firsts is the query of the first job of each namespace.
func Firsts(after string) Query {
	var c conditions
	c.firstOfEach(3, store.ListQuery{FirstOfEach: true, After: after, Limit: 100, MaxSpec: 1})
	return Query{c}
}

// Explain is how the server does a query.
func (s *Store) Explain(t testing.TB, q Query) string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(),
		"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) "+string(q.c.sql), q.c.args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// ExplainAny is how the server does a query that it has planned for any arguments, as it may once it has done it
// some times.
func (s *Store) ExplainAny(t testing.TB, q Query) string {
	t.Helper()
	args := make([]string, len(q.c.args))
	for i, arg := range q.c.args {
		switch v := arg.(type) {
		case string:
			args[i] = "'" + strings.ReplaceAll(v, "'", "''") + "'"
		case pgtype.UUID:
			args[i] = "'" + v.String() + "'"
		default:
			args[i] = fmt.Sprint(v)
		}
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{"SET LOCAL plan_cache_mode = force_generic_plan", "PREPARE q AS " + string(q.c.sql)} {
		if _, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) EXECUTE q ("+
		strings.Join(args, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "DEALLOCATE q"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// ExplainWrites is how the server does the statements of a batch, of which nothing stays.
func (s *Store) ExplainWrites(t testing.TB, of store.Shard, b *store.Batch) (plans []string) {
	t.Helper()
	var c changes
	if err := c.add(of.(*shard), b); err != nil {
		t.Fatal(err)
	}
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, q := range c.statements().QueuedQueries {
		rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) "+q.SQL,
			q.Arguments...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, q.SQL+"\n"+strings.Join(lines, "\n"))
	}
	return plans
}

// MayMigrate asks whether the tables of a store may be brought to a version.
func (s *Store) MayMigrate(ctx context.Context, from, to int) error {
	return pgx.BeginFunc(ctx, s.leases, func(tx pgx.Tx) error { return mayMigrate(ctx, tx, from, to) })
}

// Analyze has the server count what is in the tables.
func (s *Store) Analyze(t testing.TB) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "ANALYZE carillon_jobs, carillon_runs"); err != nil {
		t.Fatal(err)
	}
}

// InSession does something in a session of the pool.
func (o *Objects) InSession(t testing.TB, sql string) {
	t.Helper()
	if _, err := o.pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
