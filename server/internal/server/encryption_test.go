package server_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/worker"
)

// secretMark is in everything that must not be readable in a store.
const secretMark = "mark-5b1ed7aa"

// newKeysFile makes a file with a key.
func newKeysFile(t *testing.T) keyset.File {
	t.Helper()
	f := keyset.File{Path: filepath.Join(t.TempDir(), "keys.json")}
	if _, err := f.Create(); err != nil {
		t.Fatal(err)
	}
	return f
}

// markedJob has the mark in all that a job holds.
func markedJob(name, url string) carillon.Job {
	j := carillon.Job{Namespace: "shop", Name: name, Due: carillon.In(0), Note: secretMark + " note",
		Target: carillon.HTTP(url), Data: carillon.JSON(secretMark + " data"), FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Hour, MaxRetries: new(uint32)},
		Metadata: map[string]string{"card": secretMark + " metadata"}, Labels: map[string]string{"team": "billing"}}
	j.Target.HTTP.Headers = map[string]string{"Authorization": "Bearer " + secretMark}
	return j
}

// leaveMarks has a node of a store keep the mark wherever it can: in jobs and batches of jobs, in runs that have
// succeeded, died and wait to be tried again, in pending runs, settings and events.
func leaveMarks(t *testing.T, c server.Config) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, secretMark, " answer")
	}))
	defer target.Close()
	c.Partitions, c.Targets.Allow = 4, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s, stop := serveUntil(t, c)
	api := dial(t, s)
	if _, err := api.PutNamespace(t.Context(), carillon.Namespace{Name: "shop", Webhooks: []carillon.Webhook{{Name: "w",
		URL: target.URL + "/good", Headers: map[string]string{"X": secretMark},
		Types: []carillon.EventType{"run"}}}}); err != nil {
		t.Fatal(err)
	}
	for name, status := range map[string]carillon.RunStatus{"good": carillon.RunSucceeded, "bad": carillon.RunDead} {
		run := runOnce(t, api, markedJob(name, target.URL+"/"+name))
		if run.Status != status || !strings.HasPrefix(string(run.Response), secretMark) {
			t.Fatalf("%s: %+v", name, run)
		}
	}
	again := markedJob("again", target.URL)
	again.FailurePolicy, again.Target = carillon.Constant(time.Hour), carillon.WorkerQueue("failing")
	later := markedJob("later", target.URL)
	later.Due = carillon.At(time.Now().Add(time.Hour))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	failing := worker.New(api, worker.Options{Namespace: "shop"})
	worker.Handle(failing, "failing", func(context.Context, carillon.Run, []byte) error { return errors.New(secretMark) })
	ended := make(chan error, 1)
	go func() { ended <- failing.Run(ctx) }()
	batch := []carillon.Job{again, later}
	for i := range 20 {
		later.Name = fmt.Sprint("later-", i)
		batch = append(batch, later)
	}
	if _, err := api.PutJobs(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an attempt fails", func() bool {
		j, err := api.GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: "again"})
		return err == nil && j.Status.Current != nil && len(j.Status.Current.Errors) == 1
	})
	end()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
	worked := carillon.Job{Namespace: "shop", Name: "worked", Schedule: "@yearly", Target: carillon.WorkerQueue("q")}
	if _, err := api.PutJob(t.Context(), worked); err != nil {
		t.Fatal(err)
	}
	if _, err := api.TriggerJob(t.Context(), carillon.Key{Namespace: "shop", Name: "worked"},
		carillon.TriggerOptions{Data: new(carillon.JSON(secretMark + " triggered"))}); err != nil {
		t.Fatal(err)
	}
	stop()

	s, stop = serveUntil(t, c) // what was kept is read again
	defer stop()
	api = dial(t, s)
	j, err := api.GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: "later"})
	if err != nil || j.Note != secretMark+" note" || j.Target.HTTP.Headers["Authorization"] != "Bearer "+secretMark {
		t.Errorf("after a start: %+v, %v", j, err)
	}
	put, err := api.PutJob(t.Context(), batch[1])
	if err != nil || put.Changed {
		t.Errorf("a put of what is there already: changed %t, %v", put.Changed, err)
	}
	j, err = api.GetJob(t.Context(), carillon.Key{Namespace: "shop", Name: "again"})
	if err != nil || len(j.Status.Current.Errors) != 1 || !strings.Contains(j.Status.Current.Errors[0].Message, secretMark) {
		t.Errorf("a run that waits: %+v, %v", j.Status.Current, err)
	}
	page, err := api.ListRuns(t.Context(), carillon.RunQuery{Namespace: "shop", Job: "bad"})
	if err != nil || len(page.Runs) != 1 || !strings.HasPrefix(string(page.Runs[0].Response), secretMark) {
		t.Errorf("a dead run: %+v, %v", page, err)
	}
	found, err := api.ListJobs(t.Context(), carillon.JobQuery{Namespace: "shop", Label: "team=billing", PageSize: 100})
	if err != nil || len(found.Jobs) != 22 {
		t.Errorf("by its label: %d jobs, %v", len(found.Jobs), err)
	}
	ns, err := api.GetNamespace(t.Context(), "shop")
	if err != nil || len(ns.Webhooks) != 1 || ns.Webhooks[0].Headers["X"] != secretMark {
		t.Errorf("settings: %+v, %v", ns, err)
	}
}

// marksIn counts the files of a folder that have the mark.
func marksIn(t *testing.T, folder string) (n int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secretMark)) {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// dumped is all rows of the tables of a PostgreSQL database, as text.
func dumped(t *testing.T, url string) string {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	var all strings.Builder
	names, err := c.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'carillon%'")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil || len(tables) < 5 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		rows, err := c.Query(ctx, "SELECT t::text FROM "+name+" t")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.Join(texts, "\n"))
	}
	return all.String()
}

// TestNothingIsReadableInAStore of a node with keys, neither in the files of a folder nor in the tables of a
// database; of a node without, it is.
func TestNothingIsReadableInAStore(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		var keys server.Encryption
		if encrypted {
			keys.Keys = newKeysFile(t).Path
		}
		t.Run(fmt.Sprintf("folder, encrypted: %t", encrypted), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			leaveMarks(t, server.Config{Store: "pebble:" + folder, Extensions: server.Extensions{Encryption: keys}})
			if n := marksIn(t, folder); (n == 0) != encrypted {
				t.Errorf("the mark is in %d files", n)
			}
		})
		t.Run(fmt.Sprintf("PostgreSQL, encrypted: %t", encrypted), func(t *testing.T) {
			t.Parallel()
			url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
			leaveMarks(t, server.Config{Store: url, Name: "a", Extensions: server.Extensions{Encryption: keys}})
			dump := dumped(t, url)
			has := strings.Contains(dump, secretMark) || strings.Contains(dump, hex.EncodeToString([]byte(secretMark)))
			if has == encrypted {
				t.Errorf("the mark is in the tables: %t", has)
			}
			if !strings.Contains(dump, "billing") || !strings.Contains(dump, "later") {
				t.Error("labels and names are not to be found")
			}
		})
	}
}

// TestAnEncryptedStoreWantsItsKeys: a node without them, or with others, is refused by the id of the key.
func TestAnEncryptedStoreWantsItsKeys(t *testing.T) {
	for name, url := range map[string]string{"folder": "pebble:" + t.TempDir(),
		"PostgreSQL": realserver.StartPostgres(t, realserver.Volatile()...).Database(t)} {
		file := newKeysFile(t)
		c := server.Config{Store: url, Name: "a", Partitions: 4, GRPC: "127.0.0.1:0", HTTP: server.None,
			Extensions: server.Extensions{Encryption: server.Encryption{Keys: file.Path}}}
		_, stop := serveUntil(t, c)
		stop() // nothing is encrypted yet
		plain := c
		plain.Encryption = server.Encryption{}
		s, stop := serveUntil(t, plain)
		if _, err := dial(t, s).PutJob(t.Context(), carillon.Job{Name: "a", Schedule: "@yearly",
			Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		stop()
		s, stop = serveUntil(t, c)
		later := markedJob("later", "http://example.com")
		later.Due = carillon.In(time.Hour)
		if _, err := dial(t, s).PutJob(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		stop()
		keys, err := file.Read()
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("%08x", keys.Primary())
		other := c
		other.Encryption.Keys = newKeysFile(t).Path
		for what, c := range map[string]server.Config{"without keys": plain, "with others": other} {
			_, err := server.New(c)
			if !errors.Is(err, store.ErrSealed) || !strings.Contains(err.Error(), id) ||
				!strings.Contains(err.Error(), "--encryption-keys") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}
