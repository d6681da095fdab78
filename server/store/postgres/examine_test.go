package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// TestDoctorOnDamagedRows damages rows in each way: the doctor names that and nothing else, mends what it says
// it mends, and finds nothing more. A node serves what was mended, and every due run comes.
func TestDoctorOnDamagedRows(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and many databases")
	}
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	for _, d := range []struct {
		kind   store.FaultKind
		mended bool
		sql    string
	}{
		{store.FaultDueMissing, true, `UPDATE carillon_jobs SET due = NULL WHERE name = 'once'`},
		{store.FaultDueDangling, true, `UPDATE carillon_jobs SET due = 5 WHERE name = 'due'`},
		{store.FaultPhaseMissing, true, `UPDATE carillon_jobs SET phase = 0 WHERE name = 'paused'`},
		{store.FaultPhaseDangling, true, `UPDATE carillon_jobs SET phase = 5 WHERE name = 'once'`},
		{store.FaultStagedMissing, true, `UPDATE carillon_jobs SET queue = 'other' WHERE name = 'due'`},
		{store.FaultStagedDangling, true, `UPDATE carillon_jobs SET queue = 'other' WHERE name = 'once'`},
		{store.FaultLiveMissing, true, `UPDATE carillon_jobs SET run_seq = 99 WHERE name = 'due'`},
		{store.FaultLiveDangling, true, `UPDATE carillon_jobs SET live = true WHERE name = 'once'`},
		{store.FaultHistoryMissing, true, `UPDATE carillon_runs SET name = 'other' WHERE name = 'works'`},
		{store.FaultStatusMissing, true, `UPDATE carillon_runs SET status = 4 WHERE name = 'dies'`},
		{store.FaultAgeMissing, true, `UPDATE carillon_runs SET expires = 1 WHERE name = 'works'`},
		{store.FaultRecordUnreadable, false, `UPDATE carillon_jobs SET state = '\xff' WHERE name = 'once'`},
		{store.FaultRunUnreadable, false, `UPDATE carillon_runs SET record = '\xff' WHERE name = 'works'`},
		{store.FaultRunUnreadable, false, `UPDATE carillon_runs SET seq = 7 WHERE name = 'works'`},
	} {
		t.Run(string(d.kind), func(t *testing.T) {
			url := server.Database(t)
			b, err := golden.Backup(1)
			if err != nil {
				t.Fatal(err)
			}
			open := func(ctx context.Context, o store.Options) (store.Store, error) { return store.Open(ctx, url, o) }
			if _, err := transfer.Restore(t.Context(), bytes.NewReader(b), open, nil); err != nil {
				t.Fatal(err)
			}
			run(t, url, d.sql)
			one := map[store.FaultKind]doctor.Tally{d.kind: {Found: 1}}
			if got := examined(t, url, doctor.Look); !maps.Equal(got, one) {
				t.Fatalf("found: %v", got)
			}
			want, after := one, one
			if d.mended {
				want = map[store.FaultKind]doctor.Tally{d.kind: {Found: 1, Mended: 1}}
				after = map[store.FaultKind]doctor.Tally{}
			}
			if got := examined(t, url, doctor.Mend); !maps.Equal(got, want) {
				t.Errorf("mended: %v, want %v", got, want)
			}
			if got := examined(t, url, doctor.Look); !maps.Equal(got, after) {
				t.Errorf("afterwards: %v, want %v", got, after)
			}
			if !d.mended {
				if err := backup(t, url); !errors.Is(err, store.ErrDamaged) {
					t.Errorf("a backup: %v", err)
				}
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := golden.Serve(ctx, url, golden.Due(), func(*embedded.Scheduler) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
}

// backup reads everything there is.
func backup(t *testing.T, url string) error {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = transfer.Backup(t.Context(), s, io.Discard, time.Now(), nil)
	return errors.Join(err, s.Close())
}

// run runs a statement that changes one row.
func run(t *testing.T, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Exec(t.Context(), sql)
	if err != nil || done.RowsAffected() != 1 {
		t.Fatal(done, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// examined are the kinds that an examination finds.
func examined(t *testing.T, url string,
	look func(context.Context, store.Store, doctor.Options) (*doctor.Report, error)) map[store.FaultKind]doctor.Tally {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := look(t.Context(), s, doctor.Options{Most: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return r.Kinds
}
