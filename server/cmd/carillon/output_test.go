package main

import (
	"strings"
	"testing"
)

// TestAValueCannotLookLikeAField: what others have written stays in the column of values.
func TestAValueCannotLookLikeAField(t *testing.T) {
	for _, note := range []string{"one\nphase  paused", "one\tphase", "one\n\nphase\tpaused", "one\vphase", "one\fphase"} {
		var b strings.Builder
		if err := printFields(&b, []field{{"note", note}, {"phase", "running"}}); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
			name := strings.TrimSpace(line[:min(5, len(line))])
			if i == 0 && name != "note" || name == "phase" && !strings.HasSuffix(line, "running") {
				t.Errorf("%q is shown as\n%s", note, b.String())
			}
		}
	}
}

func TestRowsStayRows(t *testing.T) {
	var b strings.Builder
	if err := printTable(&b, []string{"NAME", "WHY"}, [][]string{{"a", "x\ny\tz"}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, b.String())
	}
}
