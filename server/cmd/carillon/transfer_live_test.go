package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
)

// TestWhileNodesServe backs a store up and moves it while nodes serve it: of a folder by its node, then of a
// database by the store. What two nodes have is copied from both.
func TestWhileNodesServe(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	says := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := outputOf(args...); code != exitDone || !strings.Contains(out, want) {
			t.Fatalf("%q: %d %s%s, want %q", args, code, out, errs, want)
		}
	}
	fails := func(code int, want string, args ...string) {
		t.Helper()
		if is, out, errs := outputOf(args...); is != code || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, is, out, errs, code, want)
		}
	}
	serve := func(name, url string) (*server.Server, func() error) {
		t.Helper()
		s, err := server.New(server.Config{Store: url, Name: name, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		return s, func() error { return <-ended }
	}
	someStore(t, at("other"))
	folder, database := "pebble:"+at("folder"), realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	one, ended := serve("n1", folder)
	if _, err := one.Scheduler().PutJob(t.Context(), carillon.Job{Name: "a", Schedule: "@yearly",
		Target: carillon.WorkerQueue("q")}); err != nil {
		t.Fatal(err)
	}
	fails(exitUsage, "--every is for --follow", "backup", "--store", folder, "--every", "1s", at("no"))
	fails(exitUsage, "--follow needs --live", "backup", "--store", folder, "--follow", at("no"))
	fails(exitUsage, "must be at least 100ms", "backup", "--store", folder, "--live", "--follow", "--every", "1ms", at("no"))
	fails(exitUsage, "--ca is for --live", "backup", "--store", folder, "--ca", at("ca"), at("no"))
	fails(exitFailed, "no node serves the store in this folder", "backup", "--store", "pebble:"+at("none"), "--live", at("no"))
	says("1 jobs and pending runs", "backup", "--store", folder, "--live", at("file"))
	fails(exitUsage, "is a file, of one moment", "restore", "--until", "2026-11-28T09:30:00Z", "--check", at("file"))
	fails(exitFailed, "there is no backup there", "restore", "--check", dir)
	says("whole, of 4 partitions", "restore", "--check", at("file"))
	if info, err := os.Stat(at("folder/NODE")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file by which the node is found: %v, %v", info, err)
	}
	if left, err := filepath.Glob(at("file.*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if _, err := os.Lstat(at("no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused command left a file: %v", err)
	}
	s3 := realserver.StartS3(t, "backups")
	t.Setenv("AWS_ACCESS_KEY_ID", s3.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
	place := "s3://backups/%s?region=us-east-1&path-style=yes&endpoint=" + s3.Endpoint()
	bucket := fmt.Sprintf(place, "a")
	says("and read back, of 4 partitions", "backup", "--store", folder, "--live", bucket)
	says("whole, of 4 partitions", "restore", "--check", bucket)
	says("1 jobs and pending runs", "restore", "--store", "pebble:"+at("from-bucket"), bucket)
	says("1 jobs and pending runs", "backup", "--store", "pebble:"+at("from-bucket"), fmt.Sprintf(place, "b"))
	says("1 jobs and pending runs", "restore", "--store", "pebble:"+at("again"), fmt.Sprintf(place, "b"))
	fails(exitFailed, "no backup is as old as that", "restore", "--check", "--until", "2026-01-01T09:30:00Z", bucket)
	fails(exitFailed, "there is no backup there", "restore", "--check", fmt.Sprintf(place, "c"))
	fails(exitUsage, `no parameter "color"`, "backup", "--store", folder, "--live", "s3://backups/a?color=red")
	fails(exitUsage, "is a database: a backup is a file", "backup", "--store", folder, "--live", database)
	fails(exitUsage, "no kind of bucket", "restore", "--check", "ftp://backups/a")
	says("moved, and compared", "migrate", "--from", folder, "--live", "--to", database)
	if err := ended(); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the node ended with %v, want %v", err, store.ErrMoved)
	}
	fails(exitFailed, "leave --live out", "migrate", "--from", folder, "--live", "--to", database)
	if _, err := os.Stat(at("folder/NODE")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the node has left the file by which it is found: %v", err)
	}

	_, ended = serve("n1", database)
	two, alsoEnded := serve("n2", database)
	shared := func() bool {
		status, err := two.Cluster().ClusterStatus(t.Context())
		return err == nil && len(status.Nodes) == 2 && status.Nodes[0].Owns == 2 && status.Nodes[1].Owns == 2
	}
	for !shared() {
		if t.Context().Err() != nil {
			t.Fatal("the nodes do not share the partitions")
		}
	}
	fails(exitFailed, "nodes live on the store", "migrate", "--from", database, "--to", "pebble:"+at("new"))
	says("1 jobs and pending runs", "backup", "--store", database, "--live", at("second"))
	says("moved, and compared", "migrate", "--from", database, "--live", "--to", "pebble:"+at("new"))
	if err := errors.Join(ended(), alsoEnded()); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the nodes ended with %v, want %v", err, store.ErrMoved)
	}

	// A backup takes the place of the store that was backed up.
	_, ended = serve("n1", "pebble:"+at("new"))
	says("1 jobs and pending runs", "backup", "--store", "pebble:"+at("new"), "--live", at("third"))
	restore := func(to, file string, more ...string) []string {
		return append([]string{"restore", "--store", "pebble:" + at(to), at(file)}, more...)
	}
	fails(exitUsage, "--live is for --depose", restore("then", "third", "--live")...)
	fails(exitUsage, "are the same store", restore("new", "third", "--depose", "pebble:"+at("new"))...)
	fails(exitUsage, "leave --depose out", "restore", "--check", at("third"), "--depose", database)
	fails(exitFailed, "not the store that the backup is of", restore("no", "third", "--depose", "pebble:"+at("other"))...)
	fails(exitFailed, "the new one is filled", restore("then", "third", "--depose", "pebble:"+at("new"))...)
	fails(exitFailed, store.ErrArriving.Error(), "backup", "--store", "pebble:"+at("then"), at("fourth"))
	says("restored, and read back", restore("then", "third", "--depose", "pebble:"+at("new"), "--live")...)
	if err := ended(); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the node that was deposed ended with %v, want %v", err, store.ErrMoved)
	}
	says("restored, and read back", restore("again-live", "third", "--depose", "pebble:"+at("new"), "--live")...)
	fails(exitFailed, "there is no store", restore("no-old", "third", "--depose", "pebble:"+at("none"), "--live")...)
	says("restored, and read back", restore("later", "third", "--depose", "pebble:"+at("then"))...)
	says("restored, and read back", restore("last", "third", "--depose", "pebble:"+at("new"))...)
	last, err := server.Start(t.Context(), server.Config{Store: "pebble:" + at("last")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := last.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	job, err := last.Scheduler().GetJob(t.Context(), carillon.Key{Namespace: "default", Name: "a"})
	if err != nil || job.Schedule != "@yearly" {
		t.Errorf("the job in the last store: %+v, %v", job, err)
	}
}
