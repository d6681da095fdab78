package realserver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// web is a server that is spoken to by HTTP.
type web struct {
	daemon
	Port   int
	health string // the path that answers 200 when it serves; empty if any answer tells that
}

// Address is "host:port".
func (s *web) Address() string { return fmt.Sprint("127.0.0.1:", s.Port) }

// Endpoint is the server's URL.
func (s *web) Endpoint() string { return "http://" + s.Address() }

// Up starts the server, also again after Crash, and waits until it serves.
func (s *web) Up(t testing.TB) {
	t.Helper()
	s.process = Start(t, s.program)
	s.process.Ready(t, func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint()+s.health, nil)
		if err != nil {
			return err
		}
		answer, err := new(http.Client).Do(q) // its context ends it
		if err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
		if s.health != "" && answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", filepath.Base(s.program.Path), answer.Status)
		}
		return nil
	})
}

// built finds a program that is built from the module tools/MODULE: the file that a variable of the
// environment names, or one of the user's cache. Without it the test is skipped.
func built(t testing.TB, name, variable, module, pkg string) string {
	t.Helper()
	path := cached(t, name, variable)
	if _, err := exec.LookPath(path); err != nil {
		Missing(t, "there is no "+name+": GOWORK=off go build -modfile=tools/"+module+"/go.mod -o "+path+" "+pkg)
	}
	return path
}

// cached is a path that a variable of the environment names, or else one in the user's cache.
func cached(t testing.TB, name, variable string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "carillon", name)
}
