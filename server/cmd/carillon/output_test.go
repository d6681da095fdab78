package main

import (
	"strings"
	"testing"
)

// TestAValueCannotLookLikeAField: what others have written stays in the column of values.
func TestAValueCannotLookLikeAField(t *testing.T) {
	for _, note := range []string{"one\nphase  paused", "one\tphase", "one\n\nphase\tpaused",
		"one\vphase", "one\fphase"} {
		text := description([]field{{"note", note}, {"phase", "running"}})
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			name := strings.TrimSpace(line[:min(5, len(line))])
			if i == 0 && name != "note" || name == "phase" && !strings.HasSuffix(line, "running") {
				t.Errorf("%q is shown as\n%s", note, text)
			}
		}
	}
}

func TestRowsStayRows(t *testing.T) {
	text := table([]string{"NAME", "WHY"}, []string{"x\ny\tz"},
		func(why *string) []string { return []string{"a", *why} })
	if n := strings.Count(text, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, text)
	}
}
