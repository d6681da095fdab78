package main

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/outbox"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

func TestRun(t *testing.T) {
	url := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	if err := outbox.Install(t.Context(), url, outbox.Roles{}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, url); err != nil {
		t.Fatal(err)
	}
	if want := "ordered tea\nordered coffee\nan order was refused, and has no reminder\n"; out.String() != want {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
}
