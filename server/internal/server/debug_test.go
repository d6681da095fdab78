package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"github.com/carillonhq/carillon/server/internal/profiling"
	"github.com/carillonhq/carillon/server/internal/server"
)

// A node that leaves does not wait for a profile of an hour, and does not throw away what it has.
func TestALeavingNodeEndsItsProfiles(t *testing.T) {
	s, stop := serveUntil(t, server.Config{Store: "memory:",
		Monitoring: server.Monitoring{Debug: "127.0.0.1:0"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+s.DebugAddr()+profiling.Path+"profile?seconds=3600", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	var caller http.Client
	defer caller.CloseIdleConnections()
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	stop()
	profile, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, profile); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestProfilesAreOffAndForTheNodesOwnNames(t *testing.T) {
	if s := serve(t, server.Config{Store: "memory:"}); s.DebugAddr() != "" {
		t.Error("profiles are served at " + s.DebugAddr())
	}
	s := serve(t, server.Config{Store: "memory:", Monitoring: server.Monitoring{Debug: "127.0.0.1:0"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+s.DebugAddr()+profiling.Path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	var caller http.Client
	defer caller.CloseIdleConnections()
	for host, want := range map[string]int{s.DebugAddr(): http.StatusOK,
		"rebound.example": http.StatusForbidden} {
		req.Host = host
		res, err := caller.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // only the status counts
		if res.StatusCode != want {
			t.Errorf("%s: %d", host, res.StatusCode)
		}
	}
}
