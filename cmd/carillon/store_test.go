package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/store/pebble"
)

// checkOf runs `carillon store check` and returns its exit code and output.
func checkOf(dir string, flags ...string) (code int, out string) {
	var stdout, stderr bytes.Buffer
	code = execute(append([]string{"store", "check", dir}, flags...), app{in: strings.NewReader(""), out: &stdout, errs: &stderr})
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
	if code, out := checkOf(dir); code != exitFailed || !strings.Contains(out, filepath.Base(tables[0])+" is damaged") {
		t.Errorf("a damaged table: %d %s", code, out)
	}
	code, out := checkOf(dir, "-o", "json")
	var report storeReport
	if err := json.Unmarshal([]byte(out), &report); code != exitFailed || err != nil || report.Whole || len(report.Damaged) != 1 {
		t.Errorf("a damaged table as JSON: %d, %v: %s", code, err, out)
	}
}
