package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/buckettest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store/object/bucket"
	"github.com/carillonhq/carillon/server/store/postgres"
)

func objects(t *testing.T, url string) *postgres.Objects {
	t.Helper()
	o, err := postgres.NewObjects(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// TestObjects holds objects in tables against what buckets promise, and more.
func TestObjects(t *testing.T) {
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	t.Run("as a bucket", func(t *testing.T) { asBucket(t, server) })
	t.Run("nothing is left", func(t *testing.T) { nothingIsLeft(t, server) })
	t.Run("other sessions", func(t *testing.T) { otherSessions(t, server) })
	t.Run("what is refused", func(t *testing.T) { whatIsRefused(t, server) })
}

// asBucket runs the suite of buckets, in a database that has no tables.
func asBucket(t *testing.T, server *realserver.Postgres) {
	o := objects(t, server.Database(t))
	if page, err := o.List(t.Context(), "", "", 10); err != nil || len(page.Entries) > 0 {
		t.Errorf("before there are tables: %+v, %v", page, err)
	}
	if _, err := o.Get(t.Context(), "x", ""); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("before there are tables: %v", err)
	}
	if err := o.CreateFrom(t.Context(), "x", strings.NewReader("x"), 1); err == nil {
		t.Error("a large object has made tables")
	}
	if _, err := o.Create(t.Context(), "first", nil); err != nil {
		t.Fatal(err)
	}
	if size, err := o.Size(t.Context(), "first"); err != nil || size != 0 {
		t.Errorf("the size of an empty one: %d, %v", size, err)
	}
	if _, err := o.Size(t.Context(), "firs"); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("the size of one that is not there: %v", err)
	}
	buckettest.Run(t, o, "suite/")
}

// nothingIsLeft: an object is there as a whole or not at all, and what is removed or replaced leaves no
// chunks.
func nothingIsLeft(t *testing.T, server *realserver.Postgres) {
	url := server.Database(t)
	o := objects(t, url)
	c := session(t, url, "observer")
	chunks := func(want int64) {
		t.Helper()
		if is := value[int64](t, c, "SELECT count(*) FROM carillon_object_chunks"); is != want {
			t.Errorf("there are %d chunks, want %d", is, want)
		}
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // four chunks
	v, err := o.Create(t.Context(), "a", data)
	if err != nil {
		t.Fatal(err)
	}
	chunks(4)
	if err := o.CreateFrom(t.Context(), "short", bytes.NewReader(data), int64(len(data))+1); err == nil {
		t.Error("half an object was written")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cut := &cutting{Reader: bytes.NewReader(data), cancel: cancel}
	if err := o.CreateFrom(ctx, "cut", cut, int64(len(data))); err == nil {
		t.Error("an object was written although its writer had gone")
	}
	for _, name := range []string{"short", "cut"} {
		if _, err := o.Get(t.Context(), name, ""); !errors.Is(err, bucket.ErrAbsent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, _, err := o.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Replace(t.Context(), "a", data[:10], v); err != nil {
		t.Fatal(err)
	}
	chunks(1)
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "was removed while it was read") {
		t.Errorf("the rest of what was replaced: %v", err)
	}
	if err := o.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	chunks(0)
}

// cutting is a reader whose caller goes when the second chunk is read.
type cutting struct {
	*bytes.Reader
	reads  int
	cancel func()
}

func (c *cutting) Read(p []byte) (int, error) {
	if c.reads++; c.reads == 2 {
		c.cancel()
	}
	return c.Reader.Read(p)
}

// otherSessions: a session that does not take writes is given up for a new one, and one that has lost its
// settings is not written in.
func otherSessions(t *testing.T, server *realserver.Postgres) {
	o := objects(t, server.Database(t)+"&pool_max_conns=1")
	if _, err := o.Create(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	o.InSession(t, "SET default_transaction_read_only = on")
	if _, err := o.Create(t.Context(), "b", []byte("x")); err == nil || errors.Is(err, bucket.ErrRefused) {
		t.Errorf("where nothing may be written: %v", err)
	}
	if _, err := o.Create(t.Context(), "b", []byte("x")); err != nil {
		t.Errorf("the next session: %v", err)
	}
	o.InSession(t, "RESET carillon.session")
	_, created := o.Create(t.Context(), "c", []byte("x"))
	for what, err := range map[string]error{"create": created, "settle": o.Settle(t.Context(), "a")} {
		if !errors.Is(err, bucket.ErrRefused) || !strings.Contains(err.Error(), "pool_mode = session") {
			t.Errorf("%s in a session without settings: %v", what, err)
		}
	}
	if _, err := o.Get(t.Context(), "c", ""); !errors.Is(err, bucket.ErrAbsent) {
		t.Errorf("what was refused: %v", err)
	}
}

// whatIsRefused: what will not pass by itself is told apart from a server that is away.
func whatIsRefused(t *testing.T, server *realserver.Postgres) {
	url := server.Database(t)
	server.Exec(t, "postgres", "CREATE ROLE reader LOGIN")
	for what, url := range map[string]string{
		"no such database": server.URL("nowhere"),
		"no such user":     strings.Replace(url, "postgres@", "nobody@", 1),
		"no right":         strings.Replace(url, "postgres@", "reader@", 1),
		"no schema":        url + "&search_path=nowhere",
	} {
		if _, err := objects(t, url).Create(t.Context(), "a", []byte("x")); !errors.Is(err, bucket.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	o := objects(t, url)
	server.Crash(t)
	if _, err := o.Create(t.Context(), "a", []byte("x")); err == nil || errors.Is(err, bucket.ErrRefused) {
		t.Errorf("nobody there: %v", err)
	}
	if err := fmt.Sprint(postgres.CheckURL("postgres://u:secret@h/d?pool_max_conns=9999")); strings.Contains(err, "secret") {
		t.Errorf("the error repeats the secret: %s", err)
	}
}

// TestAnObjectWithoutItsStandby: who cancels its commit's wait for a standby has it seen. It is settled only once the
// standby has it, or there is to be none.
func TestAnObjectWithoutItsStandby(t *testing.T) {
	server := realserver.StartPostgres(t, "fsync=off", "synchronous_commit=local")
	url := server.Database(t) + "&synchronous_commit=on"
	o := objects(t, url)
	if _, err := o.Create(t.Context(), "first", nil); err != nil {
		t.Fatal(err)
	}
	if err := o.Settle(t.Context(), "first"); err != nil {
		t.Errorf("without a standby: %v", err)
	}
	c := session(t, url, "psql")
	standby := func(change string) {
		t.Helper()
		server.Exec(t, "postgres", "ALTER SYSTEM "+change)
		server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	}
	standby("SET synchronous_standby_names = 'nobody'")
	cancelled := func(what string, do func(try int) error) {
		t.Helper()
		ends := make(chan error)
		go func() {
			for try := 0; ; try++ { // until the server has read its settings
				if err := do(try); err != nil {
					ends <- err
					return
				}
			}
		}()
		until(t, what, func() bool {
			const cancel = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
			value[int](t, c, cancel)
			select {
			case err := <-ends:
				if err == nil || !strings.Contains(err.Error(), "standby was cancelled") {
					t.Errorf("%s: %v", what, err)
				}
				return true
			default:
				return false
			}
		})
	}
	var name string
	cancelled("create", func(try int) error {
		name = fmt.Sprint(try)
		_, err := o.Create(t.Context(), name, []byte("x"))
		return err
	})
	if err := o.CreateFrom(t.Context(), name, strings.NewReader("x"), 1); !errors.Is(err, bucket.ErrExists) {
		t.Errorf("it cannot be seen: %v", err)
	}
	cancelled("settle", func(int) error { return o.Settle(t.Context(), name) })
	standby("RESET synchronous_standby_names")
	until(t, "it is settled", func() bool { return o.Settle(t.Context(), name) == nil })
}
