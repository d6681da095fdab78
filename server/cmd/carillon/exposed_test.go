package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestAPasswordOnTheCommandLineIsWarnedOf, without the password; one from the environment is not.
func TestAPasswordOnTheCommandLineIsWarnedOf(t *testing.T) {
	warned := func(args ...string) string {
		t.Helper()
		s := serveFlags()
		cmd := &cobra.Command{}
		s.add(cmd.Flags())
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if _, err := s.resolve(cmd, &log); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	for url, want := range map[string]bool{
		"redis://:S3CRET@127.0.0.1":           true,
		"redis://user:S3CRET@127.0.0.1/0":     true,
		"postgres://u:S3CRET@a:1,b:2/d":       true,
		"postgres://u@a/d?password=S3CRET":    true,
		"postgres://u@a/d?sslpassword=S3CRET": true,
		"postgres://u@a:5432/d":               false,
		"redis://127.0.0.1:6379":              false,
		"pebble:./a:b@c":                      false,
	} {
		got := warned("--store", url, "--node-name", "n")
		if strings.Contains(got, "a password is on the command line") != want || strings.Contains(got, "S3CRET") {
			t.Errorf("%s: %q", url, got)
		}
		t.Setenv("CARILLON_STORE", url)
		if got := warned("--node-name", "n"); strings.Contains(got, "a password") {
			t.Errorf("%s by the environment: %q", url, got)
		}
	}
	if !withPassword.MatchString("host=a password=S3CRET") {
		t.Error("a password beside the host is not seen")
	}
	var log bytes.Buffer
	warnOfExposed([]string{"store"}, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "flag=--store variable=CARILLON_STORE") {
		t.Errorf("%q", log.String())
	}
}
