package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// reading reads an outbox without a node, until the test ends.
func reading(t testing.TB, url string, do func(c message.Command) error) {
	t.Helper()
	deciding(t, url, func(c message.Command) (_ bool, err error) {
		if c.Refusal == nil {
			err = do(c)
		}
		return false, err
	})
}

// deciding is reading with a do that is asked for refusals, too.
func deciding(t testing.TB, url string, do func(c message.Command) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := outbox.New(outbox.Options{Name: "test", URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Do:     func(_ context.Context, c message.Command) (bool, error) { return do(c) },
		Forget: func(context.Context, []message.CommandID) error { return nil },
		Done:   func(int) {}, Rejected: func(int) {}, Kept: time.Second})
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, context.Background()) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

const putOfName = `SELECT carillon.put_job(jsonb_build_object('name', $1::text, 'due_time', '1h', 'target', '{"worker": {"queue": "q"}}'::jsonb))`

// whatCannotBeWrittenHoldsUpNobody: neither texts that a database does not take, nor a reject whose number is
// there already.
func whatCannotBeWrittenHoldsUpNobody(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c := session(t, url)
	for i := range 20 {
		if _, err := c.Exec(t.Context(), putOfName, fmt.Sprint("job-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Exec(t.Context(), `INSERT INTO carillon.outbox_rejects (seq, id, namespace, name, given_at, retried, kind, field, reason)
		SELECT seq, id, namespace, name, given_at, 0, '', '', '' FROM carillon.outbox WHERE name = 'job-3'`); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tries := 0
	reading(t, url, func(m message.Command) error {
		mu.Lock()
		defer mu.Unlock()
		switch m.Key.Name {
		case "job-3":
			return carillon.Errorf(carillon.InvalidArgument, "note", "a \x00 and a \xff")
		case "job-4":
			if tries++; tries < 3 {
				return errors.New("away: \x00\xff")
			}
		}
		return nil
	})
	emptied(t, c)
	if reason := value[string](t, c, "SELECT reason FROM carillon.outbox_rejects WHERE name = 'job-3'"); reason != "a  and a ?" {
		t.Errorf("the reject says %q", reason)
	}
}

// aRefusalIsCertainBeforeWhatFollows: a command that was refused does not come again after the next one of its
// name, although the refusal could not be recorded at first.
func aRefusalIsCertainBeforeWhatFollows(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	c, blocker := session(t, url), session(t, url)
	for range 2 {
		if _, err := c.Exec(t.Context(), putOfName, "x"); err != nil {
			t.Fatal(err)
		}
	}
	ids := value[[]string](t, c, "SELECT array_agg(id::text ORDER BY seq) FROM carillon.outbox")
	tx, err := blocker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK carillon.outbox_rejects IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	reading(t, url, func(m message.Command) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, m.Request)
		if m.Request == ids[0] && len(order) == 1 {
			return carillon.Errorf(carillon.InvalidArgument, "schedule", "it is wrong")
		}
		return nil
	})
	const blocked = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`
	realserver.Eventually(t, func() error { // the session that waits to record the refusal ends
		if value[int](t, c, blocked) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	emptied(t, c)
	mu.Lock()
	defer mu.Unlock()
	if i := slices.Index(order, ids[1]); i < 1 || slices.Contains(order[i:], ids[0]) {
		t.Errorf("done in the order %v of %v", order, ids)
	}
}
