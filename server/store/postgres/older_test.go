package postgres_test

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// older is what an older build made of an empty database, with four jobs in it: see testdata/older.sh.
//
//go:embed testdata/tables_older.sql
var older string

// olderDatabase has the tables of an older build.
func olderDatabase(t *testing.T) (url string, do func(sql string)) {
	t.Helper()
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url = server.Database(t)
	do = func(sql string) { server.Exec(t, "test_1", sql) }
	do(older)
	return url, do
}

// TestOlderTablesAreTakenOver: nobody lives that knows them as they are, so they become what this version
// makes of them, and what is in them stays.
func TestOlderTablesAreTakenOver(t *testing.T) {
	url, _ := olderDatabase(t)
	s := open(t, url, store.Options{})
	if m := s.Meta(); m.Format != store.Format() || m.Partitions != 2 || len(m.MACKey) != 32 ||
		m.MACKey[0] != 0xec {
		t.Errorf("what the store was created with: %d, %d, %x", m.Format, m.Partitions, m.MACKey)
	}
	held := make([]store.Holding, 2)
	terms, err := s.Leaser().Claim(t.Context(), "n1", []int{0, 1}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for p, names := range []string{"abc", "every"} {
		held[p] = store.Holding{Partition: p, Term: terms[p]}
		shard, err := s.Shard(p, terms[p])
		if err != nil {
			t.Fatal(err)
		}
		records, err := shard.List(t.Context(), store.ListQuery{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for i := range records {
			got.WriteString(records[i].Ref.Name)
		}
		if got.String() != names {
			t.Errorf("jobs of partition %d: %q", p, got.String())
		}
	}
	if lost, err := s.Leaser().Renew(t.Context(), "n1", held, time.Minute); err != nil || len(lost) != 0 {
		t.Errorf("renewed: lost %v, %v", lost, err)
	}
	open(t, url, store.Options{}) // the second start changes nothing
}

// TestWhatOlderTablesHoldIsListed by phase and by status: finished runs and what is not scheduled.
func TestWhatOlderTablesHoldIsListed(t *testing.T) {
	url, do := olderDatabase(t)
	run := store.RunRecord{Key: carillon.Key{Namespace: "default", Name: "gone"}, Status: carillon.RunFailed, Finished: 7}
	do(fmt.Sprintf(`INSERT INTO carillon_runs (partition, uid, scheduled, cause, seq, namespace, name, status, attempt, started,
		finished, expires, record) VALUES (0, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 'default', 'gone', 5, 1, 0, 7, 8, '\x%x')`,
		codec.AppendRun(nil, &run)))
	do(`UPDATE carillon_jobs SET phase = 5 WHERE name = 'b'`)
	s := open(t, url, store.Options{})
	shard, err := s.Shard(0, store.Term{})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := shard.Runs(t.Context(), store.RunQuery{Namespace: "default", Status: &run.Status, Limit: 10})
	if err != nil || len(runs) != 1 || runs[0].Key != run.Key {
		t.Errorf("failed runs: %v, %v", runs, err)
	}
	jobs, err := shard.List(t.Context(), store.ListQuery{Phase: new(carillon.PhasePaused), Limit: 10})
	if err != nil || len(jobs) != 1 || jobs[0].Name != "b" {
		t.Errorf("paused jobs: %v, %v", jobs, err)
	}
}

// TestOlderTablesStayUnderOlderNodes: a node of the older build lives. The start is refused, and all is as it
// was.
func TestOlderTablesStayUnderOlderNodes(t *testing.T) {
	url, do := olderDatabase(t)
	do(`INSERT INTO carillon_members (id, address, http, sidecars, capacity, nonce, renewed, until)
		VALUES ('n1', 'host:1', '', '', 1, 1, clock_timestamp(), clock_timestamp() + interval '1 minute')`)
	for range 2 {
		_, err := postgres.Open(t.Context(), url, store.Options{})
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "n1 at host:1") {
			t.Errorf("under a node that lives: %v", err)
		}
	}
	do(`UPDATE carillon_members SET until = clock_timestamp()`)
	open(t, url, store.Options{})
}

// TestAnOlderNodeCannotComeBack: it opened the store before the tables were brought up to date. What it says
// to become a member, and to claim, asks for the key under the name that it had.
func TestAnOlderNodeCannotComeBack(t *testing.T) {
	url, do := olderDatabase(t)
	open(t, url, store.Options{})
	do(`DO $$ BEGIN
		PERFORM FROM carillon_meta WHERE mac_key IS NOT NULL;
		RAISE 'it finds the key';
	EXCEPTION WHEN undefined_column THEN NULL; END $$`)
}

// TestOtherTablesStayAsTheyAre: tables that cannot be brought up to date are refused, and nothing of them is
// changed, so that the build that made them goes on.
func TestOtherTablesStayAsTheyAre(t *testing.T) {
	url, do := olderDatabase(t)
	do(`ALTER TABLE carillon_jobs DROP COLUMN run_due`)
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err, postgres.ErrOtherTables) {
		t.Errorf("a column less: %v", err)
	}
	do(`DO $$ BEGIN ASSERT (SELECT max(version) = 2 FROM carillon_migrations), 'they are changed'; END $$`)
	do(`ALTER TABLE carillon_jobs ADD COLUMN run_due boolean`)
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err, postgres.ErrOtherTables) {
		t.Errorf("a column of another type: %v", err)
	}
}
