package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// own claims a partition.
func own(t testing.TB, s store.Store, partition int) store.Shard {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{partition}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(partition, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	return shard
}

func job(i int) store.Record {
	k := carillon.Key{Namespace: "default", Name: fmt.Sprintf("orders/%08x/reminder", uint32(i)*2654435761)}
	return store.Record{
		Ref: store.Ref{Key: k}, Spec: make([]byte, 120),
		State: store.State{UID: store.NewUID(k, [8]byte{1}), Generation: 1, Priority: 2, Due: int64(i) + 1,
			Next: int64(i) + 1},
	}
}

// TestOutcomes ends the sessions of a store again and again while it writes. What was applied is there, what
// was certainly not applied is not; the writes between may be either.
func TestOutcomes(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard := own(t, s, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for ctx.Err() == nil {
			server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carillon'")
		}
	})
	counts := map[store.Outcome]int{}
	outcomes := make([]store.Outcome, 2000)
	for i := range outcomes {
		outcomes[i] = store.OutcomeOf(shard.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(i)}}))
		counts[outcomes[i]]++
	}
	cancel()
	wg.Wait()
	t.Logf("applied, not applied, fenced, unknown: %v", counts)
	if counts[store.Applied] == 0 || counts[store.Unknown] == 0 || counts[store.Fenced] != 0 {
		t.Errorf("outcomes: %v", counts)
	}
	for i, outcome := range outcomes {
		got, err := shard.Read(t.Context(), []store.Ref{job(i).Ref})
		if err != nil {
			t.Fatal(err)
		}
		if outcome != store.Unknown && got[0].Exists != (outcome == store.Applied) {
			t.Errorf("batch %d: outcome %d, and it exists: %v", i, outcome, got[0].Exists)
		}
	}
}

// TestServerGoes ends the server and starts it again. Every call returns; those after its return succeed,
// without a new store, but under a new term.
func TestServerGoes(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	var mu sync.Mutex
	var told []string
	tell := func(what string) { mu.Lock(); told = append(told, what); mu.Unlock() }
	s := open(t, server.Database(t), store.Options{Events: store.Events{
		Failed: func(error) { tell("failed") }, Recovered: func() { tell("recovered") },
	}})
	shard := own(t, s, 3)
	put := func(i int) store.Outcome {
		return store.OutcomeOf(shard.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(i)}}))
	}
	if put(0) != store.Applied {
		t.Fatal("the first write fails")
	}
	server.Crash(t)
	for i := range 3 {
		if outcome := put(1 + i); outcome != store.NotApplied && outcome != store.Unknown {
			t.Errorf("a write without a server: %d", outcome)
		}
		if _, err := shard.Read(t.Context(), []store.Ref{job(0).Ref}); err == nil {
			t.Error("a read without a server succeeds")
		}
		if _, err := s.Leaser().Now(t.Context()); err == nil {
			t.Error("there is a clock without a server")
		}
	}
	server.Up(t)
	got, err := shard.Read(t.Context(), []store.Ref{job(0).Ref})
	if err != nil || !got[0].Exists {
		t.Errorf("what was applied before: %v, %v", got, err)
	}
	if outcome := put(9); outcome != store.Fenced {
		t.Errorf("a write of the old term afterwards: %d", outcome)
	}
	shard = own(t, s, 3)
	if outcome := put(9); outcome != store.Applied {
		t.Errorf("a write afterwards: %d", outcome)
	}
	if strings.Join(told, " ") != "failed recovered" {
		t.Errorf("told %v", told)
	}
}

// TestReadsAfterRestart has all connections of the pool broken at once, by a server that was started again:
// no read fails for that.
func TestReadsAfterRestart(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard := own(t, s, 3)
	read := func() {
		if _, err := shard.Read(t.Context(), []store.Ref{job(0).Ref}); err != nil {
			t.Error(err)
		}
	}
	for range 5 {
		var wg sync.WaitGroup
		for range 64 { // which takes all the connections there may be
			wg.Go(read)
		}
		wg.Wait()
		server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'carillon'")
		read()
	}
}

// TestOpen is about what a store is opened with.
func TestOpen(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url := server.Database(t)
	var wg sync.WaitGroup
	metas := make([]store.Meta, 8)
	for i := range metas {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), url, store.Options{Partitions: 4 + i})
			if err != nil {
				t.Error(err)
				return
			}
			metas[i] = s.Meta()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, m := range metas[1:] {
		if fmt.Sprint(m) != fmt.Sprint(metas[0]) {
			t.Errorf("two starts at once made %v and %v", metas[0], m)
		}
	}
	server.Exec(t, "test_1", "INSERT INTO carillon_migrations (version) VALUES (1000)")
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err, postgres.ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	server.Exec(t, "test_1", "DELETE FROM carillon_migrations WHERE version = 1000; UPDATE carillon_meta SET format = 1000")
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err, postgres.ErrNewer) {
		t.Errorf("a newer format: %v", err)
	}
}

// TestRefused is about what cannot be opened, or written.
func TestRefused(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:secret@h:port/db":                         "",
		"postgres://u:secret@h/db?pool_max_conns=900":           "pool_max_conns is 900",
		"postgres://u:secret@h/db?default_query_exec_mode=exec": "default_query_exec_mode is exec",
	} {
		if err := postgres.CheckURL(url); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := postgres.Open(t.Context(), "postgres://h/db", store.Options{Partitions: -1}); err == nil {
		t.Error("-1 partitions are accepted")
	}
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard := own(t, s, 3)
	other := own(t, open(t, server.Database(t), store.Options{}), 3)
	batch := &store.Batch{Puts: []store.Record{job(1)}}
	if err := s.ApplyGroup(t.Context(), []store.Write{{Shard: shard, Batch: batch},
		{Shard: other, Batch: batch}}); store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a shard of another store: %v", err)
	}
	odd := job(2)
	odd.Name = "a\x00b"
	if err := shard.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(1),
		odd}}); store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a name that is no text: %v", err)
	}
	if got, err := shard.Read(t.Context(), []store.Ref{job(1).Ref}); err != nil || got[0].Exists {
		t.Errorf("half a batch: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := shard.Apply(t.Context(), batch); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
}

// TestPlans asks the server how it would do the queries that are asked all the time: with an index made for
// them, and without sorting.
func TestPlans(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	s := open(t, server.Database(t), store.Options{})
	shard := own(t, s, 3)
	var b store.Batch
	for i := range 5000 {
		b.Puts = append(b.Puts, job(i))
	}
	if err := shard.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	after := store.Cursor{Due: 2000, Ref: job(1999).Ref}
	for name, sql := range postgres.Queries(after) {
		plan := s.Explain(t, sql)
		t.Logf("%s:\n%s", name, plan)
		if !strings.Contains(plan, "Index Scan using carillon_jobs_"+name) ||
			strings.Contains(plan, "Sort") || strings.Contains(plan, "Filter") {
			t.Errorf("%s is done so:\n%s", name, plan)
		}
	}
}
