package outbox_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// manyCommitsNotifyNobody: while there are many commits the node says by a lock that it looks by itself, and
// no longer when there are few. What is put in between and afterwards is done.
func manyCommitsNotifyNobody(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	node(t, "memory:", url)
	c := session(t, url)
	put := func() {
		t.Helper()
		if _, err := c.Exec(t.Context(), `SELECT carillon.put_job('{"due_time": "1h", "target": {"worker": {"queue": "q"}}}')`); err != nil {
			t.Fatal(err)
		}
	}
	looks := func() bool {
		t.Helper()
		return value[int](t, c, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
			AND (classid::bigint << 32 | objid::bigint) = 7161130512103026556`) > 0
	}
	realserver.Eventually(t, func() error {
		for range 10 {
			put()
		}
		if !looks() {
			return errors.New("the node waits for notifications")
		}
		return nil
	})
	put()
	emptied(t, c)
	realserver.Eventually(t, func() error {
		if looks() {
			return errors.New("the node looks although there is nothing")
		}
		return nil
	})
	put()
	emptied(t, c)
}

// aWatchLingersWhileCommitsMayNotNotify: while another reader says that it looks, and while a transaction is left that
// may have seen that. It leaves no lock.
func aWatchLingersWhileCommitsMayNotNotify(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c, other := session(t, url), session(t, url)
	goesOn := outbox.Lingering(t, url)
	for _, lock := range []struct{ take, release string }{
		{"SELECT pg_advisory_lock(7161130512103026556)", "SELECT pg_advisory_unlock(7161130512103026556)"},
		{"BEGIN; SELECT pg_advisory_xact_lock_shared(7161130512103026555)", "COMMIT"},
	} {
		exec(t, other, lock.take)
		if !goesOn() {
			t.Errorf("%s: it does not linger", lock.take)
		}
		exec(t, other, lock.release)
	}
	if n := value[int](t, c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"+
		" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
	if goesOn() {
		t.Error("it lingers without a reason")
	}
}
