package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
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

// oneLine keeps stored text in its row and column.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\v", " ", "\f", " ")

// printTable prints rows under a heading, in columns.
func printTable(w io.Writer, heading []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(heading, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine.Replace(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// field is one line of a description.
type field struct{ name, value string }

// valueLines keeps stored text in the column of values: a note of several lines must not look like other
// fields.
var valueLines = strings.NewReplacer("\n", "\n\t", "\t", " ", "\v", " ", "\f", " ")

// printFields prints the fields that have a value.
func printFields(w io.Writer, fields []field) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if f.value != "" {
			fmt.Fprintf(t, "%s\t%s\n", f.name, valueLines.Replace(f.value))
		}
	}
	return t.Flush()
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
	if s == "" {
		return "-"
	}
	return s
}

// clip shortens s to n characters, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
