package outbox_test

import (
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// putFromGo: with pgx and with database/sql, one and many, and what arrives is what was put.
func putFromGo(t *testing.T, s *realserver.Postgres) {
	url := installed(t, s)
	n := node(t, "memory:", url)
	conn := session(t, url)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	made := func(name string) carillon.Job {
		return carillon.Job{Name: name, Schedule: "@every 1h", Overlap: carillon.OverlapAllow, TTL: carillon.In(time.Hour * 5),
			Target: carillon.HTTP("https://example.com/"), Data: carillon.Bytes([]byte(`{"a":  1}`+"\x00"), "application/x"),
			Metadata: map[string]string{"k": "v"}, FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(7)}
	}
	ctx := t.Context()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := outbox.Put(ctx, tx, made("sql/1"))
	ids, err2 := outbox.PutMany(ctx, tx, []carillon.Job{made("sql/3"), made("sql/2"), made("")})
	if err := errors.Join(err1, err2, tx.Commit()); err != nil || len(ids) != 3 {
		t.Fatal(ids, err)
	}
	ptx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unnamed, err1 := outbox.PutPgx(ctx, ptx, made(""))
	_, err2 = outbox.PutManyPgx(ctx, ptx, []carillon.Job{made("pgx/1"), made("pgx/2")})
	_, err3 := outbox.DeletePgx(ctx, ptx, carillon.Key{Name: "pgx/2"})
	if err := errors.Join(err1, err2, err3, ptx.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Delete(ctx, txOf(t, db), carillon.Key{Name: "sql/2"}); err != nil {
		t.Fatal(err) // its transaction ends without a commit
	}
	emptied(t, conn)
	for _, name := range []string{"sql/1", "sql/2", "sql/3", "pgx/1", unnamed, ids[2]} {
		j, want := job(t, n, name), made(name)
		if j == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		got := *j
		got.Namespace, got.Name, got.Status = "", want.Name, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, want)
		}
	}
	if job(t, n, "pgx/2") != nil {
		t.Error("pgx/2 is there, and was deleted in the transaction that put it")
	}
	if _, err := outbox.PutPgx(ctx, conn, carillon.Job{Name: "x"}); err == nil || !strings.Contains(err.Error(), "target") {
		t.Errorf("a job without a target: %v", err)
	}
}

func txOf(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // nothing is to become of it
	return tx
}
