//go:build unix

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestProgramsGetNoKey: the key of a worker is not in the environment of what it runs.
func TestProgramsGetNoKey(t *testing.T) {
	t.Setenv("CARILLON_TOKEN", "ck_secret")
	t.Setenv("CARILLON_TOKEN_FILE", "/secret.key")
	t.Setenv("CARILLON_OTHER", "stays")
	p := &program{args: []string{"env"}, out: io.Discard, errs: io.Discard}
	result, err := p.Run(t.Context(), &carillon.Run{}, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(result); strings.Contains(got, "secret") || strings.Contains(got, "CARILLON_TOKEN") ||
		!strings.Contains(got, "CARILLON_OTHER=stays\n") {
		t.Errorf("%s", got)
	}
}
