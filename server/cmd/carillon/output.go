package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// outputFlag is the name of the flag that selects the format of results.
const outputFlag = "output"

// addOutput adds the flag -o to a command.
func addOutput(cmd *cobra.Command) {
	f := &choice{words: []string{"table", "json"}, chosen: 0}
	cmd.Flags().VarP(f, outputFlag, "o", "how to print the result")
	complete(cmd, outputFlag, f.words)
}

// wantsJSON reports whether -o json was given.
func wantsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup(outputFlag)
	return f != nil && f.Value.String() == "json"
}

// printJSON prints v indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// answer is the result of a command: the message of the API for -o json, the text for people, and a line to
// them that is not part of it.
type answer struct {
	message    proto.Message
	text, note string
}

// answer prints an answer.
func (a app) answer(cmd *cobra.Command, got answer) error {
	if wantsJSON(cmd) {
		return printMessage(a.out, got.message)
	}
	if got.note != "" {
		a.sayf("%s", got.note)
	}
	return a.print(got.text)
}

// print prints a result for people.
func (a app) print(text string) error {
	_, err := io.WriteString(a.out, text)
	return err
}

// printMessage prints a message of the API as its JSON.
func printMessage(w io.Writer, m proto.Message) error {
	var out bytes.Buffer
	if err := json.Indent(&out, httpapi.Marshal(m), "", "  "); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}

// oneLine keeps stored text in its row and column.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\v", " ", "\f", " ")

// table returns a heading and a row for each item, in columns.
func table[T any](heading []string, items []T, row func(*T) []string) string {
	rows := [][]string{heading}
	for i := range items {
		rows = append(rows, row(&items[i]))
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(oneLine.Replace(cell))
		}
		b.WriteByte('\n')
	}
	return inColumns(b.String())
}

// field is one line of a description.
type field struct{ name, value string }

// valueLines keeps stored text in the column of values: a note of several lines must not look like other
// fields.
var valueLines = strings.NewReplacer("\n", "\n\t", "\t", " ", "\v", " ", "\f", " ")

// description returns the fields that have a value, one a line.
func description(fields []field) string {
	var b strings.Builder
	for _, f := range fields {
		if f.value != "" {
			b.WriteString(f.name + "\t" + valueLines.Replace(f.value) + "\n")
		}
	}
	return inColumns(b.String())
}

// inColumns aligns what tabs separate.
func inColumns(text string) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(t, text) // a Builder accepts everything
	_ = t.Flush()
	return b.String()
}

// unlessZero formats a value; the zero value is empty.
func unlessZero[T comparable](format string, v T) string {
	var zero T
	if v == zero {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// moment formats t for people; the zero time is empty.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// dash returns s, or "-" if it is empty, so that a column is never empty.
func dash(s string) string {
	return cmp.Or(s, "-")
}

// clip shortens s to n characters, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
