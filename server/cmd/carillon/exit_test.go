package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// ran is what a command line has printed, and its exit code.
type ran struct {
	code      int
	out, errs string
}

// runInProcess runs a command line in this process, with nothing to read.
func runInProcess(args ...string) ran {
	var out, errs bytes.Buffer
	code := execute(args, newApp(strings.NewReader(""), &out, &errs))
	return ran{code, out.String(), errs.String()}
}

// nobody is an address at which nothing listens.
const nobody = "127.0.0.1:1"

// hostile are command lines that begin a refusal of the word that is put for X. Each is wrong usage, whatever
// the word is.
var hostile = [][]string{
	{"X"}, {"job", "X"}, {"bench", "X"}, {"help", "X"}, {"help", "job", "X"}, {"help", "job", "put", "X"},
	{"completion", "X"}, {"completion", "bash", "X"}, {"job", "get", "a", "X"},
	{"job", "put", "--X"}, {"job", "put", "-ZX"}, {"job", "put", "--=X"}, {"--X"},
	{"job", "list", "--limit", "X"}, {"job", "list", "--phase", "X"}, {"job", "list", "--wait", "X"}, {"job",
		"put", "--retry", "X"},
	{"job", "put", "--retry-factor", "X"}, {"job", "put", "--repeats", "X"}, {"job", "put", "--label",
		"X"}, {"job", "put", "--header", "X"},
	{"job", "put", "--metadata", "X"}, {"job", "put", "--timeout", "X"},
	{"job", "put", "a", "--worker", "q", "--data", "X"}, {"job", "put", "a", "--worker", "q", "--data", "@X"},
	{"job", "put", "-f", "X"}, {"job", "patch", "a", "-f", "X"},
	{"job", "backfill", "a", "--from", "X", "--to", "X"}, {"namespace", "set", "a", "--limit", "X"},
	{"schedule", "preview", "X"}, {"schedule", "preview", "@daily", "--from", "X"}, {"schedule", "preview",
		"@daily", "--time-zone", "X"},
	{"job", "list", "--server", "\x01X"}, {"job", "list", "--server", "http://X"},
	{"job", "list", "--server", "a,dns:///X"}, {"serve", "--config", "X"}, {"serve", "--store", "X"},
	{"serve", "--store", "memory:", "--grpc", "X"}, {"serve", "--store", "memory:", "--node-name", "X/"},
	{"serve", "--store", "memory:", "--log-level", "X"}, {"serve", "--store", "X:x"}, {"work", "q", "--", "X"},
	{"dapr-scheduler", "--X"}, {"dapr-scheduler", "--config", "X"}, {"dapr-scheduler", "--store", "X"},
}

// TestWhatIsRefusedIsShort: a message shows neither all of a long word nor what a terminal would act upon,
// and has no words of the libraries below; the exit code is that of wrong usage.
func TestWhatIsRefusedIsShort(t *testing.T) {
	for kind, word := range map[string]string{
		"long": strings.Repeat("x", 10_000), "many words": strings.Repeat("x y ",
			2_500), "escape": "\x1b]52;c;aGk\a\x1b[2J\u202e\u009b",
		"not UTF-8": "a\xff\xfe",
	} {
		for _, line := range hostile {
			args := slices.Clone(line)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "X", word)
			}
			name := kind + ": " + strings.Join(line, " ")
			got, want := runInProcess(args...), exitUsage
			if line[0] == daprCommand {
				want = exitFailed
			}
			if got.code != want || got.out != "" {
				t.Errorf("%s: exit code %d, %q, want %d and nothing: %.300s", name, got.code,
					clip(got.out, 80), want, got.errs)
			}
			if n := utf8.RuneCountInString(got.errs); n > 1_000 || !strings.HasPrefix(got.errs, "carillon: ") {
				t.Errorf("%s: %d characters, want at most 1,000: %.200s", name, n, got.errs)
			}
			for _, bad := range []string{"strconv.", "strconv", "net/url", "parse \"dns", "shorthand",
				"bad flag syntax", "exec: "} {
				if strings.Contains(got.errs, bad) {
					t.Errorf("%s: it says %q: %.300s", name, bad, got.errs)
				}
			}
			if i := strings.IndexFunc(got.errs, isCommand); i >= 0 {
				t.Errorf("%s: a command of terminals is at %d: %.300q", name, i, got.errs)
			}
		}
	}
}

// TestWhatCannotBeReachedIsShort: the address is one that nothing can be at.
func TestWhatCannotBeReachedIsShort(t *testing.T) {
	got := runInProcess("job", "list", "--wait", "200ms", "--server",
		nobody+","+strings.Repeat("x", 10_000)+":1")
	if n := utf8.RuneCountInString(got.errs); got.code == exitDone || n > 1_000 {
		t.Errorf("exit code %d, %d characters: %.300s", got.code, n, got.errs)
	}
}
