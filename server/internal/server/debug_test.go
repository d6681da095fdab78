package server_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"strings"
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

// TestDenialsOfOtherListenersAreRecorded: of names that are not the node's, at those of metrics, health and
// profiles on loopback; of pages of other origins, at that of profiles, where a GET costs something.
func TestDenialsOfOtherListenersAreRecorded(t *testing.T) {
	log := &syncBuffer{}
	c := server.Config{Store: "memory:", Partitions: 1, Monitoring: server.Monitoring{Debug: "127.0.0.1:0",
		Metrics: "127.0.0.1:0", Healthz: "127.0.0.1:0"}}
	c.Extensions.Audit = server.Audit{To: server.AuditLog, Log: slog.New(slog.NewTextHandler(log, nil))}
	node := serve(t, c)
	ask := func(address, path, host string, headers ...string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		var caller http.Client
		defer caller.CloseIdleConnections()
		res, err := caller.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // only the status counts
		return res.StatusCode
	}
	const profiles = "/debug/pprof/goroutine"
	recorded := 0
	for _, of := range []struct {
		address, path string
		pages         bool // those of other origins are served: nothing that they ask for does anything
	}{{node.MetricsAddr(), "/metrics", true}, {node.HealthzAddr(), "/healthz", true}, {node.DebugAddr(), profiles, false}} {
		for _, own := range [][]string{nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin", "Origin", "http://" + of.address}} {
			if code := ask(of.address, of.path, of.address, own...); code != http.StatusOK {
				t.Errorf("%s with %q: %d", of.path, own, code)
			}
		}
		if code := ask(of.address, of.path, "evil.example"); code != http.StatusForbidden {
			t.Errorf("%s of another name: %d", of.path, code)
		}
		recorded++
		for _, foreign := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}} {
			if code := ask(of.address, of.path, of.address, foreign...); (code == http.StatusOK) != of.pages {
				t.Errorf("%s with %q: %d", of.path, foreign, code)
			}
		}
	}
	eventually(t, "each is recorded", func() bool {
		return strings.Count(log.String(), "audit.fields=[Host]") == recorded &&
			strings.Count(log.String(), "audit.fields=[Origin]") == recorded
	})
	if all := log.String(); strings.Count(all, "audit.principal=anonymous audit.address=127.0.0.1:") != 2*recorded ||
		strings.Count(all, "audit.action=HTTP audit.outcome=permission_denied") != 2*recorded || strings.Contains(all, "evil") {
		t.Error(all)
	}
}
