package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if want := "user 42: water the plants (attempt 1)\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
