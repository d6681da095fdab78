// Package outbox puts jobs in the transactions of a PostgreSQL database: what commits is put, what is rolled
// back never was. The database has the outbox of `carillon outbox install`, and a node reads it (carillon
// serve --outbox); this program needs no connection to a node. See docs/outbox.md.
//
// Functions without a suffix take what database/sql has, those that end in Pgx what pgx has:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…                                            // rows of the program's own
//	id, err := outbox.Put(ctx, tx, carillon.Job{…})
//	err = tx.Commit()
//
// An error of the database ends the transaction, as any other does. It names the field that is wrong.
package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/carillonhq/carillon"
)

// Tx is a transaction of database/sql: *sql.Tx, or *sql.Conn while it has one.
type Tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// PgxTx is a transaction of pgx: pgx.Tx, or a *pgx.Conn while it has one. R is pgx.Row.
type PgxTx[R Row] interface {
	QueryRow(ctx context.Context, sql string, args ...any) R
}

// Row is a row of a result.
type Row interface{ Scan(into ...any) error }

const (
	putSQL     = "SELECT carillon.put_job($1::text::jsonb)::text"
	putManySQL = "SELECT to_json(carillon.put_jobs($1::text::jsonb))::text"
	deleteSQL  = "SELECT carillon.delete_job($1::text, $2::text)::text"
)

// Put puts a job once tx commits, and returns the id of the command. A job without a name gets that as its
// name. Relative times count from now.
func Put(ctx context.Context, tx Tx, job carillon.Job) (id string, err error) {
	return put(job, func(text string) Row { return tx.QueryRowContext(ctx, putSQL, text) })
}

// PutPgx is [Put] for pgx.
func PutPgx[R Row](ctx context.Context, tx PgxTx[R], job carillon.Job) (id string, err error) {
	return put(job, func(text string) Row { return tx.QueryRow(ctx, putSQL, text) })
}

// PutMany puts jobs once tx commits, in one call, and returns the ids of the commands in their order.
func PutMany(ctx context.Context, tx Tx, jobs []carillon.Job) (ids []string, err error) {
	return putMany(jobs, func(text string) Row { return tx.QueryRowContext(ctx, putManySQL, text) })
}

// PutManyPgx is [PutMany] for pgx.
func PutManyPgx[R Row](ctx context.Context, tx PgxTx[R], jobs []carillon.Job) (ids []string, err error) {
	return putMany(jobs, func(text string) Row { return tx.QueryRow(ctx, putManySQL, text) })
}

// Delete deletes a job once tx commits, and returns the id of the command. It is no error if there is none.
// An empty namespace is the default one.
func Delete(ctx context.Context, tx Tx, key carillon.Key) (id string, err error) {
	return text(tx.QueryRowContext(ctx, deleteSQL, key.Name, namespaceOf(key)))
}

// DeletePgx is [Delete] for pgx.
func DeletePgx[R Row](ctx context.Context, tx PgxTx[R], key carillon.Key) (id string, err error) {
	return text(tx.QueryRow(ctx, deleteSQL, key.Name, namespaceOf(key)))
}

func namespaceOf(key carillon.Key) string {
	if key.Namespace == "" {
		return carillon.DefaultNamespace
	}
	return key.Namespace
}

func put(job carillon.Job, call func(text string) Row) (id string, err error) {
	object, err := encode(&job)
	if err != nil {
		return "", err
	}
	return text(call(string(object)))
}

func putMany(jobs []carillon.Job, call func(text string) Row) (ids []string, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	list := make([]json.RawMessage, len(jobs))
	for i := range jobs {
		if list[i], err = encode(&jobs[i]); err != nil {
			return nil, fmt.Errorf("jobs[%d]: %w", i, err)
		}
	}
	array, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	answer, err := text(call(string(array)))
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(answer), &ids)
	return ids, err
}

func text(r Row) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}
