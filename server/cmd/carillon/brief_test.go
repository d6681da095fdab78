package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestBriefKeepsWhatIsShort(t *testing.T) {
	for _, text := range []string{"", "a", "two  spaces\tand a tab", "a line\n\n  and another\n",
		strings.Repeat("ä", longestWord)} {
		if got := brief(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestBriefKeepsTheEnd(t *testing.T) {
	got := brief("open " + strings.Repeat("x", 10_000) + "/last: no such file")
	if !strings.HasSuffix(got, "x/last: no such file") || !strings.Contains(got, "…") {
		t.Error(got)
	}
}

func TestBriefProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[aä鐘]{0,300}[ \t\n]{0,3}`), 0,
			20).Draw(t, "pieces"), "")
		got := brief(text)
		for line := range strings.SplitSeq(got, "\n") {
			if n := utf8.RuneCountInString(line); n > longestLine {
				t.Fatalf("a line has %d characters", n)
			}
			for word := range strings.FieldsSeq(line) {
				if n := utf8.RuneCountInString(word); n > longestWord {
					t.Fatalf("a word has %d characters", n)
				}
			}
		}
		if brief(got) != got || strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
