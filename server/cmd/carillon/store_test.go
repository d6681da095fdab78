package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store/pebble"
)

// checkOf runs `carillon store check` and returns its exit code and output.
func checkOf(dir string, flags ...string) (code int, out string) {
	var stdout, stderr bytes.Buffer
	code = execute(append([]string{"store", "check", dir}, flags...),
		app{in: strings.NewReader(""), out: &stdout, errs: &stderr})
	return code, stdout.String()
}

func TestStoreCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := pebble.Open(dir, pebble.Options{Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out := checkOf(dir); code != exitDone || !strings.Contains(out, "Nothing is damaged.") {
		t.Errorf("a whole store: %d %s", code, out)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "db", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	text, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	text[10] ^= 1
	if err := os.WriteFile(tables[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := checkOf(dir); code != exitFailed ||
		!strings.Contains(out, filepath.Base(tables[0])+" is damaged") {
		t.Errorf("a damaged table: %d %s", code, out)
	}
	code, out := checkOf(dir, "-o", "json")
	var report storeReport
	if err := json.Unmarshal([]byte(out), &report); code != exitFailed || err != nil || report.Whole ||
		len(report.Damaged) != 1 {
		t.Errorf("a damaged table as JSON: %d, %v: %s", code, err, out)
	}
}

// startOf starts a node on a folder, and returns its exit code and what it says. A node that comes up is
// ended after a while.
func startOf(t *testing.T, dir string) (code int, said string) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs)
	root := newRoot(a)
	root.SetArgs([]string{"serve", "--store", "pebble:" + dir, "--grpc", "127.0.0.1:0", "--http",
		"127.0.0.1:0", "--partitions", "2"})
	cmd, err := root.ExecuteContextC(ctx)
	code = a.report(cmd, nil, err)
	return code, out.String() + errs.String()
}

// TestADamagedStartPromisesNothing: a start that finds damage ends with one line that says what to do, not
// that it goes on by itself.
func TestADamagedStartPromisesNothing(t *testing.T) {
	matching := func(pattern string, spoil func(path string) error) func(dir string) error {
		return func(dir string) error {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(paths) == 0 {
				return fmt.Errorf("%s: %v, %w", pattern, paths, err)
			}
			for _, path := range paths {
				err = errors.Join(err, spoil(path))
			}
			return err
		}
	}
	cut := func(path string) error { return os.Truncate(path, 10) }
	garble := func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 4096), 0o600) }
	folder := func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }
	for name, spoil := range map[string]func(dir string) error{
		"manifest cut":     matching("db/MANIFEST-*", cut),
		"manifest garbled": matching("db/MANIFEST-*", garble),
		"manifest gone":    matching("db/MANIFEST-*", os.Remove),
		// which the system answers with an error of its own
		"manifest a folder":    matching("db/MANIFEST-*", folder),
		"format marker gone":   matching("db/marker.format*", os.Remove),
		"tables gone":          matching("db/*.sst", os.Remove),
		"tables cut":           matching("db/*.sst", cut),
		"database gone":        matching("db", os.RemoveAll),
		"recovery point blank": matching("RECOVERY", garble),
		"recovery a folder":    matching("RECOVERY", folder),
		"mark garbled":         matching("CARILLON", garble),
		"mark gone":            matching("CARILLON", os.Remove),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, err := pebble.Open(dir, pebble.Options{Partitions: 2})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Close(), spoil(dir)); err != nil {
				t.Fatal(err)
			}
			code, said := startOf(t, dir)
			if code != exitFailed || !strings.HasPrefix(said, "carillon: store folder ") ||
				strings.Count(said, "\n") != 1 {
				t.Errorf("exit code %d, want %d and one line about the folder:\n%s", code, exitFailed, said)
			}
			for _, promise := range []string{"by itself", "tries again", "trying again", "goes on", "again_after"} {
				if strings.Contains(said, promise) {
					t.Errorf("it promises that it %s: %s", promise, said)
				}
			}
		})
	}
}
