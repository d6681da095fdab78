package outbox

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Reject is a command that Carillon has refused.
type Reject struct {
	Seq        int64     `json:"-"`
	ID         string    `json:"id"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	GivenAt    time.Time `json:"given_at"`
	RejectedAt time.Time `json:"rejected_at"`
	Kind       string    `json:"kind"`
	Field      string    `json:"field,omitempty"`
	Reason     string    `json:"reason"`
	Job        *string   `json:"job,omitempty"` // the put, as JSON; nil: a delete
}

// Rejects returns the newest rejects of a database, at most limit.
func Rejects(ctx context.Context, url string, limit int) (all []Reject, err error) {
	err = inDatabase(ctx, url, func(tx pgx.Tx) error {
		if err := checkVersion(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT seq, id::text, namespace, name, given_at, rejected_at, kind, field,
			reason, job::text FROM carillon.outbox_rejects ORDER BY seq DESC LIMIT $1`, limit)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Reject])
		return err
	})
	return all, err
}

// Waiting is a command that was tried and is tried again.
type Waiting struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	GivenAt   time.Time `json:"given_at"`
	Tries     int       `json:"tries"`
	RetryAt   time.Time `json:"retry_at"`
	Problem   string    `json:"problem"`
}

// WaitingOf returns the oldest commands of a database that are tried again, at most limit. Those that wait
// for one of them, with the same name, are not among them.
func WaitingOf(ctx context.Context, url string, limit int) (all []Waiting, err error) {
	err = inDatabase(ctx, url, func(tx pgx.Tx) error {
		if err := checkVersion(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT id::text, namespace, name, given_at, tries, retry_at, coalesce(problem, '')
			FROM carillon.outbox WHERE parked AND retry_at IS NOT NULL ORDER BY seq LIMIT $1`, limit)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Waiting])
		return err
	})
	return all, err
}

var idForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsID reports whether a text may be the ID of a command.
func IsID(text string) bool { return idForm.MatchString(text) }

// Choice says which rejects are meant: those of the IDs, or those whose reason or kind contains Reason; with
// neither all.
type Choice struct {
	IDs    []string
	Reason string
}

// RetriedAtOnce is how many rejects are tried again in one transaction, which locks their names, and the most
// IDs of a choice.
const RetriedAtOnce = 1000

// Retry puts rejects back into the outbox, in the order in which they were given, and returns how many. If an
// ID is not that of a reject, nothing is done. What is refused again meanwhile is not tried once more.
func Retry(ctx context.Context, url string, of Choice) (n int, err error) {
	var left []string
	for begun := false; !begun || len(left) > 0; begun = true {
		var k int
		err := inDatabase(ctx, url, func(tx pgx.Tx) error {
			if !begun {
				if err := checkVersion(ctx, tx); err != nil {
					return err
				}
				var err error
				if left, err = chosen(ctx, tx, of); err != nil || len(left) == 0 {
					return err
				}
			}
			some := left[:min(len(left), RetriedAtOnce)]
			left = left[len(some):]
			return tx.QueryRow(ctx, "SELECT carillon.retry_rejects($1::text[]::uuid[])", some).Scan(&k)
		})
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// chosen returns the ids of the rejects that are meant, in the order in which they were given.
func chosen(ctx context.Context, tx pgx.Tx, of Choice) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT id::text FROM carillon.outbox_rejects
		WHERE ($1::text[] IS NULL OR id = ANY ($1::text[]::uuid[]))
		AND position($2 IN kind || ': ' || field || ': ' || reason) > 0 ORDER BY given_at, seq`, of.IDs, of.Reason)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, id := range of.IDs {
		if !slices.ContainsFunc(ids, func(found string) bool { return strings.EqualFold(found, id) }) {
			return nil, fmt.Errorf("no command %s was refused: carillon outbox rejects lists those that were", id)
		}
	}
	return ids, nil
}

// rejectsKept is how long rejects are kept; a person may delete them before.
const rejectsKept = 30 * 24 * time.Hour

// pruneRejects removes old rejects.
func pruneRejects(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `DELETE FROM carillon.outbox_rejects
		WHERE rejected_at < clock_timestamp() - make_interval(secs => $1)`, rejectsKept.Seconds())
	return err
}
