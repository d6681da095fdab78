package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReferenceIsCurrent compares docs/cli.md with the commands.
func TestReferenceIsCurrent(t *testing.T) {
	const file = "../../../docs/cli.md"
	want := []byte(reference(quietRoot()))
	if *rewrite {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/cli.md is not current: run go generate ./server/cmd/...")
	}
}

func quietRoot() *cobra.Command {
	return newRoot(newApp(strings.NewReader(""), io.Discard, io.Discard))
}

// call is a line of the docs that calls carillon; its arguments are the first group.
var call = regexp.MustCompile(`(?m)^(?:\$ )?(?:\./carillon|carillon|go run \./server/cmd/carillon) (.*)$`)

// TestCommandsInDocs parses every call of carillon in the docs and in the examples of the commands.
func TestCommandsInDocs(t *testing.T) {
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			calls++
			if err := parses(m[1]); err != nil {
				t.Errorf("%s: %q: %v", file, m[0], err)
			}
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls found: this test looks in the wrong place", calls)
	}
	if parses("job put a --no-such-flag") == nil || parses("jobs list") == nil {
		t.Error("a wrong call was accepted")
	}
}

// parses reports what is wrong with a command line, without running it. The usage lines of the reference
// count as calls.
func parses(line string) error {
	line = strings.NewReplacer(" [flags]", "", " [NAME]", "", "[ARG]...", "arg",
		" NAME | --prefix PREFIX", " name", " ID | --job NAME | --all", " id", "@mail.json", "{}").Replace(line)
	cmd, rest, err := quietRoot().Find(words(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() {
		return group(cmd, cmd.Flags().Args())
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// words splits a line as a shell would, quotes included, up to a comment, a > where the output goes, or
// another command.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, c := range line + " " {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, open = c, true
		case strings.ContainsRune("#>|&", c) && !open:
			return out
		case c == ' ':
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(c)
			open = true
		}
	}
	return out
}

// TestTheSchemaOfEventsIsCurrent compares docs/ingest.schema.json with what the command prints.
func TestTheSchemaOfEventsIsCurrent(t *testing.T) {
	want, err := eventSchema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/ingest.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/ingest.schema.json is not current: run go generate ./server/cmd/...")
	}
}
