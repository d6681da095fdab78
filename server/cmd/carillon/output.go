package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// answer is the result of a command: for programs the message of the API, or a value, and for people text
// or a grid, and a line to them that is not part of it. names are what -o name prints.
type answer struct {
	message    proto.Message
	value      any
	text, note string
	grid       *grid
	names      []string
}

// answer prints an answer in the format that -o asks for.
func (a app) answer(cmd *cobra.Command, got answer) error {
	switch f := formatOf(cmd); {
	case f.structured() && got.message != nil:
		return f.write(a.out, httpapi.Marshal(got.message))
	case f.structured():
		return a.encode(cmd, got.value)
	case f.word == "name":
		return a.print(strings.Join(append(got.names, ""), "\n"))
	}
	if got.note != "" {
		a.sayf("%s", got.note)
	}
	text := wrapped(got.text, a.display().width)
	if got.grid == nil {
		return a.print(text)
	}
	table := got.grid.render(formatOf(cmd).word == "wide", a.display())
	_, err := io.WriteString(a.raw, table+visibleText(text)) // the cells are visible, and may have colours
	return err
}

// wrapped returns a text with line breaks between words where a line is wider than the display: below the
// value that a description has there. What begins with a space, such as YAML, stays, and so does a long word.
func wrapped(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), line[len(strings.TrimSuffix(line, "\n")):]
		if displaywidth.String(line) <= width || strings.HasPrefix(line, " ") {
			b.WriteString(line + end)
			continue
		}
		head, at := "", 0
		if m := valueBegins.FindString(line); m != "" && displaywidth.String(m) <= width/2 {
			head, line = m, line[len(m):]
			at = displaywidth.String(m)
		}
		b.WriteString(head + strings.Join(wordLines(line, width-at), "\n"+strings.Repeat(" ", at)))
		b.WriteString(end)
	}
	return b.String()
}

// wordLines breaks a text between words into lines of the width, but for words that are longer.
func wordLines(text string, width int) []string {
	var lines []string
	used := 0
	for n, word := range strings.Split(text, " ") {
		w := displaywidth.String(word)
		if n == 0 || used+1+w > width {
			lines, used = append(lines, word), w
			continue
		}
		lines[len(lines)-1] += " " + word
		used += 1 + w
	}
	return lines
}

// valueBegins matches what stands before the value of a field.
var valueBegins = regexp.MustCompile(`^\S+(?: \S+)*  +`)

// print prints a result for people.
func (a app) print(text string) error {
	_, err := io.WriteString(a.out, text)
	return err
}

// oneLine keeps stored text in its row and column.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\v", " ", "\f", " ")

// table returns a heading and a row for each item, in columns.
func table[T any](heading []string, items []T, row func(*T) []string) string {
	g := &grid{}
	for _, name := range heading {
		g.columns = append(g.columns, gridColumn{name: name})
	}
	for i := range items {
		var cells []gridCell
		for _, text := range row(&items[i]) {
			cells = append(cells, gridCell{text: text})
		}
		g.rows = append(g.rows, cells)
	}
	return g.render(true, display{})
}

// field is one line of a description.
type field struct{ name, value string }

// valueLines keeps stored text in the column of values: a note of several lines must not look like other
// fields.
var valueLines = strings.NewReplacer("\t", " ", "\v", " ", "\f", " ")

// description returns the fields that have a value, one a line.
func description(fields []field) string {
	var b strings.Builder
	widest := 0
	for _, f := range fields {
		if f.value != "" {
			widest = max(widest, displaywidth.String(visibleText(f.name)))
		}
	}
	for _, f := range fields {
		if f.value != "" {
			lines := strings.ReplaceAll(valueLines.Replace(f.value), "\n", "\n"+strings.Repeat(" ", widest+2))
			b.WriteString(padded(visibleText(f.name), widest+2) + lines + "\n")
		}
	}
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
