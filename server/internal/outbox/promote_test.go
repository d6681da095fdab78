package outbox

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Promote does what a reader does every minute, three names at a time.
func Promote(t *testing.T, url string) {
	t.Helper()
	if err := inDatabase(t.Context(), url, func(tx pgx.Tx) error {
		return promoteAll(t.Context(), tx, 3)
	}); err != nil {
		t.Fatal(err)
	}
}

// Intruders returns what a reader logs that stands by for long.
func Intruders(t *testing.T, url string) (who []string) {
	t.Helper()
	if err := inDatabase(t.Context(), url, func(tx pgx.Tx) (err error) {
		who, err = intruders(t.Context(), tx.Conn())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return who
}

// Park does what a reader does with rows behind another one of their name.
func Park(t *testing.T, url string, seqs []int64, namespaces, names []string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := park(t.Context(), pool, waiting{seqs, namespaces, names}); err != nil {
		t.Fatal(err)
	}
}

// Lingering is a reader's watch that has just begun.
func Lingering(t *testing.T, url string) (goesOn func() bool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w, err := New(Options{Name: "test", URL: url}).newWatch(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.end(context.Background()) })
	return func() bool {
		t.Helper()
		if err := w.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.state == lingers
	}
}
