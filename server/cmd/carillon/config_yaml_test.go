package main

import (
	"strings"
	"testing"
)

// TestAYAMLFaultHasItsLine: also on the first line, of which the library says none.
func TestAYAMLFaultHasItsLine(t *testing.T) {
	const quotes = "put a value with a colon into quotes"
	for text, want := range map[string]string{
		"store: memory:\n":                        "f.yaml:1: mapping values are not allowed in this context; " + quotes,
		"# a node\nstore: memory:\n":              "f.yaml:2: mapping values are not allowed in this context; " + quotes,
		"a: 1\nb: 2\nstore: x: y\n":               "f.yaml:3: mapping values are not allowed in this context; " + quotes,
		"a: \"\x1b\"\n":                           "f.yaml:1: control characters are not allowed",
		"a: 1\nb: \"\x1b\"\n":                     "f.yaml:2: control characters are not allowed",
		"a: 1\nb: 2\nc: \xff\n":                   "f.yaml:3: ",
		"a: 1\n\tb: 2\n":                          "f.yaml:2: ",
		"\ta: 1\n":                                "f.yaml:1: ",
		"a: 'x\n":                                 "f.yaml:",
		"signing_secrets:\n  a: 3\nx: [\n  - }\n": "f.yaml:",
	} {
		flags, _, _, _ := flagsForTest()
		err := fromFile(flags, map[string]bool{}, "f.yaml", []byte(text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "yaml: ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), quotes) != strings.Contains(want, quotes) {
			t.Errorf("%q: %v: the advice is out of place", text, err)
		}
	}
}
