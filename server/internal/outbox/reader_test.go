package outbox_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// aPutIsStoredOnceItsTransactionCommits: what is rolled back never was, and a delete removes the job.
func aPutIsStoredOnceItsTransactionCommits(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	n := node(t, "memory:", url)
	c := session(t, url)
	put := func(name string, commit bool) {
		t.Helper()
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT carillon.put_job(jsonb_build_object('name', $1::text,
			'due_time', '1h', 'target', '{"worker": {"queue": "q"}}'::jsonb, 'data', '{"a": [1, null]}'::jsonb))`, name); err != nil {
			t.Fatal(err)
		}
		if job(t, n, name) != nil {
			t.Errorf("%s is there before its transaction commits", name)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put("not", false)
	put("orders/1", true)
	realserver.Eventually(t, func() error {
		if job(t, n, "orders/1") == nil {
			return errors.New("orders/1 is not there")
		}
		return nil
	})
	j := job(t, n, "orders/1")
	if string(j.Data.Bytes) != `{"a": [1, null]}` || j.Data.ContentType != "application/json" ||
		j.Target.Worker.Queue != "q" {
		t.Errorf("got %+v", j)
	}
	if job(t, n, "not") != nil {
		t.Error("a put that was rolled back is there")
	}
	if _, err := c.Exec(t.Context(), `SELECT carillon.delete_job('orders/1')`); err != nil {
		t.Fatal(err)
	}
	realserver.Eventually(t, func() error {
		if job(t, n, "orders/1") != nil {
			return errors.New("orders/1 is not deleted")
		}
		return nil
	})
}

// commandsOfANameWaitForEachOther: a transaction that puts a name which another one has put waits for that
// one's commit, so that the later one comes second; one that puts another name, or none, does not wait.
func commandsOfANameWaitForEachOther(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	n := node(t, "memory:", url)
	first, second, third := session(t, url), session(t, url), session(t, url)
	const put = `SELECT carillon.put_job(jsonb_build_object('name', $1::text, 'note', $2::text, 'due_time', '1h',
		'target', '{"worker": {"queue": "q"}}'::jsonb))`
	tx, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), put, "same", "first"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), put, "same", "second")
		ended <- err
	}()
	realserver.Eventually(t, func() error {
		if value[int](t, third, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND wait_event = 'advisory'`) != 1 {
			return errors.New("the second put does not wait")
		}
		return nil
	})
	for _, name := range []string{"other", ""} {
		if _, err := third.Exec(t.Context(), put, name, "third"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tx.Commit(t.Context()), <-ended); err != nil {
		t.Fatal(err)
	}
	emptied(t, third)
	if j := job(t, n, "same"); j == nil || j.Note != "second" {
		t.Errorf("the job is %+v", j)
	}
}
