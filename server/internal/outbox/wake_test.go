package outbox_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// aCancelledPutLeavesNoLock: wherever it is cancelled, while nobody reads, while somebody does and while that one
// looks by itself.
func aCancelledPutLeavesNoLock(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c, reader := session(t, url), session(t, url)
	exec(t, c, "SET statement_timeout = '3ms'")
	for _, lock := range []string{"", "SELECT pg_advisory_lock(7161130512103026554)",
		"SELECT pg_advisory_lock(7161130512103026556)"} {
		exec(t, reader, lock)
		for range 50 {
			_, err := c.Exec(t.Context(), `DO $$ DECLARE s carillon.outbox_settings; BEGIN
				SELECT * INTO s FROM carillon.outbox_settings;
				LOOP
					PERFORM carillon.outbox_wake(s);
				END LOOP;
			END $$`)
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "57014" {
				t.Fatalf("it is not cancelled: %v", err)
			}
		}
		exec(t, c, "SET statement_timeout = 0")
		if n := value[int](t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"); n > 0 {
			t.Fatalf("after %q: %d locks are left", lock, n)
		}
		exec(t, c, "SET statement_timeout = '3ms'")
	}
}

// whoHasTheTurnWrongly: a session that holds the lock of who reads as programs do is found, a node's is not.
func whoHasTheTurnWrongly(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	exec(t, c, "SET application_name = 'shop'")
	for lock, want := range map[string]int{"pg_advisory_lock": 0, "pg_advisory_lock_shared": 1} {
		exec(t, c, "SELECT pg_advisory_unlock_all()")
		exec(t, c, "SELECT "+lock+"(7161130512103026554)")
		if who := outbox.Intruders(t, url); len(who) != want {
			t.Errorf("%s: %q", lock, who)
		}
	}
}
