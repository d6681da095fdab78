package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestAnEncryptedStoreMoves as it is, without a key: by a backup of it, also while its node serves it, to another
// number of partitions and back. A store from before there were keys is encrypted by a move with them, and so is
// one to be encrypted with another key.
func TestAnEncryptedStoreMoves(t *testing.T) {
	const mark = "mark-4e07aa19"
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	try := func(code int, want string, args ...string) string {
		t.Helper()
		is, out, errs := outputOf(args...)
		if is != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, is, out, errs, code, want)
		}
		return out
	}
	keys := at("keys.json")
	try(exitDone, "encrypts and decrypts", "encryption-key", "create", keys)
	try(exitFailed, "is there already", "encryption-key", "create", keys)
	try(exitUsage, "is not the id of a key", "encryption-key", "promote", keys, "primary")
	later := carillon.Job{Name: "later", Due: carillon.At(time.Now().Add(time.Hour)), Data: carillon.JSON(mark),
		Target: carillon.WorkerQueue("q"), Labels: map[string]string{"team": "billing"}}
	served := func(name string, with server.Encryption, do func(s *server.Server)) {
		t.Helper()
		s, stop, err := startNode(t.Context(), server.Config{Store: "pebble:" + at(name), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0",
			Partitions: 4, DrainGrace: -1, Extensions: server.Extensions{Encryption: with}})
		if err != nil {
			t.Fatal(err)
		}
		do(s)
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	put := func(s *server.Server) {
		t.Helper()
		if _, err := s.Scheduler().PutJob(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
	there := func(s *server.Server) {
		t.Helper()
		j, err := s.Scheduler().GetJob(t.Context(), later.Key())
		if err != nil || string(j.Data.Bytes) != `"`+mark+`"` {
			t.Errorf("%+v, %v", j, err)
		}
	}
	readable := func(name string) (n int) {
		t.Helper()
		if err := filepath.WalkDir(at(name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(mark)) {
				n++
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	served("plain", server.Encryption{}, put)
	if readable("plain") == 0 {
		t.Fatal("there is nothing to be encrypted")
	}
	move := func(from, to string, more ...string) []string {
		return append([]string{"migrate", "--from", "pebble:" + at(from), "--to", "pebble:" + at(to)}, more...)
	}
	try(exitUsage, "there is no file that it decrypts", move("plain", "a", "--encryption-kek", "file:"+keys)...)
	try(exitUsage, "move twice", move("plain", "a", "--encryption-keys", keys, "--partitions", "3")...)
	try(exitUsage, "stop the nodes", move("plain", "a", "--encryption-keys", keys, "--live")...)
	try(exitDone, "moved, and read back", move("plain", "a", "--encryption-keys", keys)...)
	with := server.Encryption{Keys: keys}
	served("a", with, func(s *server.Server) {
		there(s)
		put(s)
		try(exitDone, "jobs and pending runs", "backup", "--store", "pebble:"+at("a"), "--live", at("live"))
		again := later
		again.Name = "again"
		if _, err := s.Scheduler().PutJob(t.Context(), again); err != nil {
			t.Error(err)
		}
	})
	try(exitDone, "2 jobs", "backup", "--store", "pebble:"+at("a"), at("file"))
	try(exitDone, "restored", "restore", "--store", "pebble:"+at("b"), at("file"))
	try(exitDone, "moved, and read back", move("b", "c", "--partitions", "7")...)
	try(exitDone, "2 jobs and pending runs are encrypted, and were not looked into", "doctor", "--store", "pebble:"+at("c"))
	try(exitDone, "Nothing is wrong", "doctor", "--store", "pebble:"+at("c"), "--mend")
	if out := try(exitDone, "Nothing is wrong", "doctor", "--store", "pebble:"+at("c"), "--encryption-keys", keys); strings.Contains(out,
		"not looked into") {
		t.Error(out)
	}
	served("c", with, there)

	file := keyset.File{Path: keys}
	before, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	_, id, err := file.Add()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Promote(id); err != nil {
		t.Fatal(err)
	}
	try(exitDone, "moved, and read back", move("c", "d", "--encryption-keys", keys)...)
	if _, err := file.Remove(before.Primary()); err != nil {
		t.Fatal(err)
	}
	served("d", with, there)
	try(4, "that is not in the file of --encryption-keys", "doctor", "--store", "pebble:"+at("a"), "--encryption-keys", keys)
	for _, name := range []string{"a", "b", "c", "d", "file", "live"} {
		if n := readable(name); n > 0 {
			t.Errorf("%s: the mark is in %d files", name, n)
		}
	}
}
