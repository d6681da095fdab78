package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// outputOf runs a command and returns its exit code and what it printed.
func outputOf(args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = execute(args, app{in: strings.NewReader(""), out: &stdout, errs: &stderr})
	return code, stdout.String(), stderr.String()
}

// someStore makes a folder with a store that a node has used.
func someStore(t *testing.T, dir string) {
	t.Helper()
	s, err := pebble.Open(dir, pebble.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	terms, err := s.Leaser().Claim(t.Context(), "n1", []int{0, 1}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := s.Shard(1, terms[1])
	if err != nil {
		t.Fatal(err)
	}
	ref := store.Ref{}
	ref.Namespace, ref.Name = "default", "a"
	if err := sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{{Ref: ref, Spec: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
}

// TestBackupRestoreMigrate goes through the three commands, and a node serves neither what has moved nor what is
// not whole.
func TestBackupRestoreMigrate(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	someStore(t, at("a"))
	says := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := outputOf(args...); code != exitDone || !strings.Contains(out, want) {
			t.Errorf("%q: %d %s%s, want %q", args, code, out, errs, want)
		}
	}
	fails := func(code int, want string, args ...string) {
		t.Helper()
		if is, out, errs := outputOf(args...); is != code || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, is, out, errs, code, want)
		}
	}
	says("1 jobs and pending runs", "backup", "--store", "pebble:"+at("a"), at("file"))
	if info, err := os.Stat(at("file")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	fails(exitUsage, "is there already", "backup", "--store", "pebble:"+at("a"), at("file"))
	fails(exitFailed, "no such file", "backup", "--store", "pebble:"+at("none"), at("file2"))
	fails(exitUsage, "--store is missing", "backup", at("file2"))
	fails(exitUsage, "keeps nothing", "restore", "--store", "memory:", at("file"))
	fails(exitUsage, "leave --store out", "restore", "--check", "--store", "pebble:"+at("b"), at("file"))
	fails(exitUsage, "the same store", "migrate", "--from", "pebble:"+at("a"), "--to", "pebble:"+at("a"))
	if parts, err := filepath.Glob(at("*.part-*")); err != nil || len(parts) > 0 {
		t.Errorf("left behind: %q, %v", parts, err)
	}
	says("whole, of 2 partitions", "restore", "--check", at("file"))
	says("restored, and read back", "restore", "--store", "pebble:"+at("b"), at("file"))
	fails(exitFailed, "in use already", "restore", "--store", "pebble:"+at("a"), at("file"))

	code, out, errs := outputOf("migrate", "-o", "json", "--from", "pebble:"+at("a"), "--to", "pebble:"+at("c"))
	var result moved
	if err := json.Unmarshal([]byte(out), &result); code != exitDone || err != nil || result.Records != 1 {
		t.Errorf("migrate: %d, %v: %s%s", code, err, out, errs)
	}
	text, err := os.ReadFile(at("file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("half"), text[:len(text)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	fails(exitFailed, "the backup is damaged", "restore", "--store", "pebble:"+at("d"), at("half"))
	if _, err := os.Stat(at("d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a backup has left half a store: %v", err)
	}
	if _, err := transfer.Restore(t.Context(), bytes.NewReader(text[:len(text)-20]), func(ctx context.Context,
		o store.Options) (store.Store, error) {
		return store.Open(ctx, "pebble:"+at("d"), o)
	}, nil); err == nil {
		t.Error("half a backup was restored")
	}
	for name, want := range map[string]error{"a": store.ErrMoved, "d": store.ErrArriving} {
		_, err := server.Start(context.WithoutCancel(t.Context()), server.Config{Store: "pebble:" + at(name),
			GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
		if !errors.Is(err, want) {
			t.Errorf("a node on %s: %v, want %v", name, err, want)
		}
	}
}
