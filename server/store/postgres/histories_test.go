package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// until calls f until it is true: a server takes a while to notice what it was told, and a node that a server
// has gone.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !f() {
		if patience.Err() != nil {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// value is what a query of one value gives.
func value[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// holding claims partition 3.
func holding(t testing.TB, s store.Store) (store.Shard, store.Holding) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{3}, time.Hour)
	if err != nil || terms[0].IsZero() {
		t.Fatal(terms, err)
	}
	shard, err := s.Shard(3, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	return shard, store.Holding{Partition: 3, Term: terms[0]}
}

func put(t testing.TB, shard store.Shard, i int) store.Outcome {
	t.Helper()
	err := shard.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(i)}})
	if err != nil {
		t.Log(err)
	}
	return store.OutcomeOf(err)
}

// wantDeposed has the term of a shard be over: it neither writes nor is renewed, and the next one has a
// greater epoch.
func wantDeposed(t *testing.T, s store.Store, shard store.Shard, held store.Holding) {
	t.Helper()
	until(t, "the term is over", func() bool {
		outcome := put(t, shard, 100)
		if outcome == store.Applied {
			t.Fatal("an owner has written to another history than the one that it knows")
		}
		return outcome == store.Fenced
	})
	if lost, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, time.Hour); err != nil ||
		len(lost) != 1 {
		t.Errorf("Renew: lost %v, %v", lost, err)
	}
	again, now := holding(t, s)
	if now.Term.Epoch <= held.Term.Epoch {
		t.Errorf("epoch %d comes after %d", now.Term.Epoch, held.Term.Epoch)
	}
	if outcome := put(t, again, 101); outcome != store.Applied {
		t.Errorf("a write of the new term: %d", outcome)
	}
}

// followed writes job 1 and waits until a standby has it.
func followed(t *testing.T, standby *realserver.Postgres, shard store.Shard) {
	t.Helper()
	if put(t, shard, 1) != store.Applied {
		t.Fatal("the first write fails")
	}
	c := session(t, standby.URL("test"), "psql")
	until(t, "the standby has it", func() bool {
		return value[int](t, c, "SELECT count(*) FROM pg_tables WHERE tablename = 'carillon_jobs'") == 1 &&
			value[int](t, c, "SELECT count(*) FROM carillon_jobs") == 1
	})
}

// A promoted standby has the term of the old owner, epoch and nonce alike, but not all that it has written.
func TestAFailoverDeposes(t *testing.T) {
	primary := realserver.StartPostgres(t)
	primary.Exec(t, "postgres", "CREATE DATABASE test")
	standby := primary.Standby(t)
	first := session(t, primary.URL("test"), "psql")
	until(t, "the standby follows", func() bool {
		return value[int](t, first, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1
	})
	url := fmt.Sprintf("postgres://postgres@%s,%s/test?sslmode=disable", primary.Address(), standby.Address())
	var warned storetest.Warnings
	s := open(t, url, store.Options{Log: &warned})
	if len(warned) != 1 || !strings.Contains(warned[0], "none is synchronous") {
		t.Errorf("warned of %q", warned)
	}
	shard, held := holding(t, s)
	followed(t, standby, shard)
	standby.Exec(t, "test", "SELECT pg_promote()")
	if put(t, shard, 2) != store.Applied { // which the standby never gets
		t.Fatal("the old primary does not write")
	}
	primary.Crash(t)
	wantDeposed(t, s, shard, held)
}

// What a server had acknowledged before it was started again may be gone, as where fsync is off, or from an
// older copy of its files.
func TestARestartDeposes(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard, held := holding(t, s)
	server.Down(t)
	server.Up(t)
	wantDeposed(t, s, shard, held)
}

// Tables that were restored while nodes run have the terms that were in force when they were saved.
func TestRestoredTablesDepose(t *testing.T) {
	const save, fill = "CREATE TABLE saved AS TABLE carillon_owners", "INSERT INTO carillon_owners TABLE saved"
	for name, restore := range map[string][]string{
		"made again": {"ALTER TABLE carillon_owners RENAME TO saved",
			"CREATE TABLE carillon_owners (LIKE saved INCLUDING ALL)", fill},
		"emptied":       {save, "TRUNCATE carillon_owners; " + fill},
		"rows put back": {save, "DELETE FROM carillon_owners; " + fill},
	} {
		t.Run(name, func(t *testing.T) {
			server := realserver.StartPostgres(t, realserver.Volatile()...)
			s := open(t, server.Database(t), store.Options{})
			shard, held := holding(t, s)
			began := time.Now()
			for _, sql := range restore {
				server.Exec(t, "test_1", sql)
			}
			wantDeposed(t, s, shard, held)
			server.Exec(t, "test_1", "UPDATE carillon_owners SET epoch = 7") // an older copy
			if _, now := holding(t, s); now.Term.Epoch < uint64(began.Unix()) {
				t.Errorf("epoch %d is not of this time", now.Term.Epoch)
			}
		})
	}
}

// A copy of the database, made while nodes run, has the term that is in force, and the very same tables.
func TestACopyOfTheDatabaseDeposes(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard, held := holding(t, s)
	server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test_1'")
	server.Exec(t, "postgres", "CREATE DATABASE saved TEMPLATE test_1")
	until(t, "it writes what the copy does not have", func() bool { return put(t, shard, 1) == store.Applied })
	if lost, err := s.Leaser().Renew(t.Context(), "node", []store.Holding{held}, time.Hour); err != nil ||
		len(lost) != 0 {
		t.Errorf("Renew: lost %v, %v", lost, err)
	}
	server.Exec(t, "postgres", "DROP DATABASE test_1 WITH (FORCE)")
	server.Exec(t, "postgres", "ALTER DATABASE saved RENAME TO test_1")
	wantDeposed(t, s, shard, held)
}

// Two primaries live after a failover, and connections are to both. What a partition is claimed of is what it
// is read from.
func TestReadsAreOfTheServerThatWasClaimedOf(t *testing.T) {
	first := realserver.StartPostgres(t)
	first.Exec(t, "postgres", "CREATE DATABASE test")
	second := first.Standby(t)
	s := open(t, fmt.Sprintf("postgres://postgres@%s,%s/test?sslmode=disable", first.Address(),
		second.Address()), store.Options{})
	shard, _ := holding(t, s)
	followed(t, second, shard)
	second.Exec(t, "test", "SELECT pg_promote()")
	if put(t, shard, 2) != store.Applied { // which only the first has
		t.Fatal("the old primary does not write")
	}
	first.Exec(t, "postgres", "ALTER DATABASE test ALLOW_CONNECTIONS false")
	first.Exec(t, "postgres", // but those that have written jobs
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carillon' AND query NOT LIKE '%carillon_jobs%'")
	shard, _ = holding(t, s)
	got, err := shard.Read(t.Context(), []store.Ref{job(1).Ref, job(2).Ref})
	if err != nil || !got[0].Exists || got[1].Exists {
		t.Errorf("read %v, %v", got, err)
	}
	if outcome := put(t, shard, 3); outcome != store.Applied {
		t.Errorf("a write: %d", outcome)
	}
}

// A store that was removed and made again is not the one that was opened: it may have other partitions, and
// has another secret.
func TestAnotherStoreInItsPlace(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url := server.Database(t)
	var told []string
	s := open(t, url, store.Options{Partitions: 8, Events: store.Events{
		Failed:    func(error) { told = append(told, "failed") },
		Recovered: func() { told = append(told, "recovered") },
	}})
	shard, held := holding(t, s)
	server.Exec(t, "test_1", "ALTER SCHEMA public RENAME TO away; CREATE SCHEMA public")
	other := open(t, url, store.Options{Partitions: 16})
	l := s.Leaser()
	for name, join := range map[string]func(context.Context, store.Member,
		time.Duration) error{"join": l.Join, "retire": l.Retire} {
		if err := join(t.Context(), store.Member{ID: "node", Nonce: 1, Capacity: 1},
			time.Minute); !errors.Is(err, postgres.ErrReplaced) {
			t.Errorf("%s another store's members: %v", name, err)
		}
	}
	if m, err := other.Leaser().Members(t.Context()); err != nil || len(m) != 0 {
		t.Errorf("the members of the other store: %v, %v", m, err)
	}
	for range 2 {
		if _, err := l.Claim(t.Context(), "node", []int{3}, time.Hour); !errors.Is(err, postgres.ErrReplaced) {
			t.Errorf("a claim of another store's partition: %v", err)
		}
		if _, err := l.Members(t.Context()); err != nil {
			t.Error(err)
		}
		if lost, err := l.Renew(t.Context(), "node", []store.Holding{held}, time.Hour); err != nil ||
			len(lost) != 1 {
			t.Errorf("renewed in another store: lost %v, %v", lost, err)
		}
		if outcome := put(t, shard, 1); outcome != store.Fenced {
			t.Errorf("a write to another store: %d", outcome)
		}
	}
	if !slices.Equal(told, []string{"failed"}) { // that it can be asked does not make it whole
		t.Errorf("told %q", told)
	}
	server.Exec(t, "test_1", "DROP SCHEMA public CASCADE; ALTER SCHEMA away RENAME TO public")
	if _, err := l.Claim(t.Context(), "node", []int{3}, time.Hour); err != nil ||
		!slices.Equal(told, []string{"failed", "recovered"}) {
		t.Errorf("the store is back: %v, told %q", err, told)
	}
}

// A server whose clock was set back does not have a dead node live for as much longer.
func TestTheClockIsSetBack(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	l := s.Leaser()
	dead := store.Member{ID: "dead", Nonce: 1}
	if err := l.Join(t.Context(), dead, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Claim(t.Context(), "dead", []int{3}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if terms, err := l.Claim(t.Context(), "node", []int{3}, time.Minute); err != nil || !terms[0].IsZero() {
		t.Fatalf("it is held: %v, %v", terms, err)
	}
	// As it is after the clock was set back by an hour.
	server.Exec(t, "test_1", "UPDATE carillon_owners SET renewed = renewed + interval '1 hour', until = until + interval '1 hour'")
	server.Exec(t, "test_1", "UPDATE carillon_members SET renewed = renewed + interval '1 hour', until = until + interval '1 hour'")
	if m, err := l.Members(t.Context()); err != nil || len(m) != 0 {
		t.Errorf("members: %v, %v", m, err)
	}
	if err := l.Join(t.Context(), store.Member{ID: "dead", Nonce: 2}, time.Minute); err != nil {
		t.Errorf("a successor: %v", err)
	}
	if terms, err := l.Claim(t.Context(), "node", []int{3}, time.Minute); err != nil || terms[0].IsZero() {
		t.Errorf("its partition: %v, %v", terms, err)
	}
}
