package realserver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// write adds a word, over a connection of its own; it is acknowledged when write returns.
func write(t *testing.T, url, word string) {
	t.Helper()
	on(t, url, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "INSERT INTO words VALUES ($1)", word)
		return err
	})
}

// words are all that are there, in order.
func words(t *testing.T, url string) (out []string) {
	t.Helper()
	on(t, url, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT word FROM words ORDER BY word")
		if err == nil {
			out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	return out
}

func on(t *testing.T, url string, f func(ctx context.Context, c *pgx.Conn) error) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := f(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A failover loses what was acknowledged after the standby was cut off, and nothing else; clients keep their
// address.
func TestAFailoverLosesTheLastWrites(t *testing.T) {
	pair := realserver.StartPostgresPair(t, realserver.Volatile()...)
	url := pair.Database(t)
	pair.Primary.Exec(t, "test_1", "CREATE TABLE words (word text)")
	want := []string{}
	for _, round := range []string{"a", "b"} {
		write(t, url, round+"-kept")
		want = append(want, round+"-kept")
		pair.CaughtUp(t)
		pair.Stall()
		write(t, url, round+"-lost")
		if got := words(t, url); !slices.Contains(got, round+"-lost") {
			t.Fatalf("round %s: not acknowledged: %q", round, got)
		}
		old := pair.Primary
		pair.Failover(t)
		if got := words(t, url); !slices.Equal(got, want) {
			t.Errorf("round %s: %q after the failover, want %q", round, got, want)
		}
		old.Discard(t)
		pair.Rejoin(t)
	}
}

// A standby that was cut off for a while, and is not promoted, misses nothing.
func TestAStandbyCatchesUp(t *testing.T) {
	pair := realserver.StartPostgresPair(t, realserver.Volatile()...)
	url := pair.Database(t)
	pair.Stall()
	pair.Primary.Exec(t, "test_1", "CREATE TABLE words (word text)")
	write(t, url, "late")
	pair.Resume()
	pair.CaughtUp(t)
	pair.Promote(t)
	if got := words(t, url); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%q, want the one word", got)
	}
}
