package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// TestTablesOfAnotherBuild: the tables say that they are of this version, and lack what it needs.
func TestTablesOfAnotherBuild(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url := server.Database(t)
	open(t, url, store.Options{})
	server.Exec(t, "test_1", "ALTER TABLE carillon_jobs RENAME COLUMN run_due TO due_of_run")
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err,
		postgres.ErrOtherTables) || !strings.Contains(err.Error(), "run_due") {
		t.Errorf("another column: %v", err)
	}
	server.Exec(t, "test_1", "ALTER TABLE carillon_jobs RENAME COLUMN due_of_run TO run_due; DROP TABLE carillon_runs CASCADE")
	if _, err := postgres.Open(t.Context(), url, store.Options{}); !errors.Is(err,
		postgres.ErrOtherTables) || !strings.Contains(err.Error(), "carillon_runs") {
		t.Errorf("a table less: %v", err)
	}
}

// TestTablesAreNotChangedUnderNodes that could not go on with what becomes of them.
func TestTablesAreNotChangedUnderNodes(t *testing.T) {
	s := open(t, realserver.StartPostgres(t, realserver.Volatile()...).Database(t), store.Options{})
	const additive, breaking = 3, 1000
	if err := s.MayMigrate(t.Context(), additive, breaking); err != nil {
		t.Errorf("with nobody there: %v", err)
	}
	if err := s.Leaser().Join(t.Context(), store.Member{ID: "n1", Address: "host:1", Nonce: 1},
		time.Minute); err != nil {
		t.Fatal(err)
	}
	err := s.MayMigrate(t.Context(), additive, breaking)
	if !errors.Is(err, postgres.ErrInUse) || !strings.Contains(err.Error(), "n1 at host:1") ||
		!strings.Contains(err.Error(), "version 3") {
		t.Errorf("with a node that lives: %v", err)
	}
	if err := s.MayMigrate(t.Context(), 1, additive); err != nil {
		t.Errorf("what only adds: %v", err)
	}
}
