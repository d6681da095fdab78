package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// A server that keeps less than it could is warned of.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ settings, want []string }{
		{nil, nil},
		{[]string{"synchronous_commit=off"}, nil}, // which is taken as on
		{realserver.Volatile(), []string{"fsync is off", "full_page_writes is off"}},
		{[]string{"synchronous_standby_names=nobody", "synchronous_commit=local"},
			[]string{"synchronous_commit is local"}},
	} {
		t.Run(strings.Join(c.settings, " "), func(t *testing.T) {
			server := realserver.StartPostgres(t, c.settings...)
			var got storetest.Warnings
			open(t, server.Database(t), store.Options{Log: &got})
			same := func(got, want string) bool { return strings.Contains(got, want) }
			if !slices.EqualFunc(got, c.want, same) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

// A database that cannot hold all names, and a server that is too old, are refused.
func TestServersRefused(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	server.Exec(t, "postgres", "CREATE DATABASE odd ENCODING 'SQL_ASCII' TEMPLATE template0")
	if _, err := postgres.Open(t.Context(), server.URL("odd"), store.Options{}); err == nil ||
		!strings.Contains(err.Error(), "ENCODING 'UTF8'") {
		t.Errorf("a database without an encoding: %v", err)
	}
	if text := postgres.Refused(110022); !strings.Contains(text, "12 or newer") {
		t.Errorf("version 11: %q", text)
	}
	if text := postgres.Refused(120000); text != "" {
		t.Errorf("version 12: %q", text)
	}
}

// A server that is told to take no writes is not made to. The store writes again when it may.
func TestReadOnly(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard, held := holding(t, s)
	server.Exec(t, "postgres", "ALTER SYSTEM SET default_transaction_read_only = on")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	until(t, "writes are refused", func() bool {
		outcome := put(t, shard, 1)
		if outcome != store.Applied && outcome != store.NotApplied {
			t.Fatalf("a write that is refused: %d", outcome)
		}
		return outcome == store.NotApplied
	})
	if _, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, time.Hour); err == nil {
		t.Error("a lease is renewed on a server that takes no writes")
	}
	// No session that is made now may write, but for one that says so.
	url := server.URL("test_1") + "&default_transaction_read_only=off"
	c := session(t, url, "psql")
	for _, sql := range []string{"ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "it writes again", func() bool { return put(t, shard, 1) == store.Applied })
}

// nobody has commits wait for a standby that is not there, and writes until one does.
func nobody(t *testing.T, server *realserver.Postgres, write func(i int) store.Outcome) (waits int) {
	t.Helper()
	server.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	until(t, "commits wait", func() bool {
		waits++
		return write(waits) == store.Unknown
	})
	return waits
}

// A commit that waits for a synchronous standby is not done without it because nobody waits for its answer
// any more.
func TestACommitWaitsForItsStandby(t *testing.T) {
	// local: for the sessions of the test
	server := realserver.StartPostgres(t, "fsync=off", "synchronous_commit=local")
	url := server.Database(t) + "&synchronous_commit=on"
	s := open(t, url, store.Options{})
	shard, held := holding(t, s)
	s.CommitWithin(300 * time.Millisecond)
	n := nobody(t, server, func(i int) store.Outcome { return put(t, shard, i) })
	if outcome := put(t, shard, n+1); outcome != store.Unknown {
		t.Errorf("another one: %d", outcome)
	}
	c := session(t, server.URL("test_1"), "psql")
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'carillon'"
	if w := value[int](t, c, waiting); w != 2 {
		t.Errorf("%d commits wait, want 2", w)
	}
	if there := value[int](t, c, "SELECT count(*) FROM carillon_jobs"); there != n-1 {
		t.Errorf("%d jobs can be read, and %d were acknowledged", there, n-1)
	}
	server.Exec(t, "postgres", "ALTER SYSTEM RESET synchronous_standby_names")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	until(t, "nobody is waited for", func() bool { return value[int](t, c, waiting) == 0 })
	if put(t, shard, 0) != store.Applied {
		t.Errorf("the term %v does not write any more", held)
	}
}

// A commit whose wait for a synchronous standby was cancelled is told as done by the server, and is not where
// it should be.
func TestAWaitForAStandbyIsCancelled(t *testing.T) {
	server := realserver.StartPostgres(t, "fsync=off", "synchronous_commit=local")
	// it hears of it all the same
	s := open(t, server.Database(t)+"&synchronous_commit=on&client_min_messages=error", store.Options{})
	shard, _ := holding(t, s)
	c := session(t, server.URL("test_1"), "psql")
	s.CommitWithin(300 * time.Millisecond)
	nobody(t, server, func(i int) store.Outcome { return put(t, shard, i) })
	s.CommitWithin(time.Minute)
	ends := make(chan store.Outcome)
	go func() { ends <- put(t, shard, 1000) }()
	until(t, "the wait is cancelled", func() bool {
		const cancel = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
		value[int](t, c, cancel)
		select {
		case outcome := <-ends:
			if outcome != store.Unknown {
				t.Errorf("a commit without its standby: outcome %d", outcome)
			}
			return true
		default:
			return false
		}
	})
	server.Exec(t, "postgres", "ALTER SYSTEM RESET synchronous_standby_names")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
}
