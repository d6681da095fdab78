package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/doctor"
	"github.com/carillonhq/carillon/server/internal/testing/golden"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// TestDoctor goes through the command: what is looked for, what is mended, and its exit codes.
func TestDoctor(t *testing.T) {
	url, err := golden.Store(store.Format(), t.TempDir())
	if err != nil {
		url, err = golden.Store(store.Format()-1, t.TempDir()) // the new format has none yet
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(code int, want string, args ...string) string {
		t.Helper()
		is, out, errs := outputOf(append([]string{"doctor"}, args...)...)
		if is != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, is, out, errs, code, want)
		}
		return out
	}
	run(exitDone, "Nothing is wrong.", "--store", url, "--mend")
	run(exitDone, "Nothing is wrong.", "--store", url)
	spoil(t, url)
	run(exitFailed, "permit-dangling", "--store", url)
	var report doctor.Report
	out := run(exitFailed, "", "--store", url, "-o", "json", "--most", "1")
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) != 1 ||
		report.Kinds[doctor.PermitDangling] != (doctor.Tally{Found: 2}) || report.Findings[0].Name != "gone" {
		t.Errorf("%s: %v", out, err)
	}
	run(exitDone, "permit-dangling  2      2", "--store", url, "--mend")
	run(exitDone, "Nothing is wrong.", "--store", url)

	old, err := golden.Store(1, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run(exitUnknown, "its format is 1", "--store", old)
	run(exitDone, "Nothing is wrong.", "--store", old, "--mend")
	run(exitUnknown, "there is no store", "--store", "pebble:"+filepath.Join(t.TempDir(), "none"))
	run(exitUsage, "--store is missing")
	run(exitUsage, "keeps nothing", "--store", "memory:")
	run(exitUsage, "--most is -1", "--store", url, "--most", "-1")
	run(exitUsage, "one argument too many", "--store", url, "word")
}

// spoil records two permits of attempts that are not there.
func spoil(t *testing.T, url string) {
	t.Helper()
	s, err := pebble.Open(strings.TrimPrefix(url, "pebble:"), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	terms, err := s.Leaser().Claim(t.Context(), "n1", []int{1}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(1, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	for _, key := range []string{"k\x00default\x00gone\x000", "k\x00default\x00gone\x001"} {
		b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindLimited, Key: key, Value: []byte{1}})
	}
	if err := shard.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKindsAreDocumented: docs/operations.md says of each kind what it means, what mending does, and what is
// lost by that.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range doctor.Kinds() {
		mending, lost := k.Mending, k.Lost
		if mending == "" {
			mending, lost = "no", ""
		}
		if row := "| `" + string(k.Kind) + "` | " + k.Means + " | " + mending + " | " + lost + " |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md lacks the row\n%s", row)
		}
	}
}
