package profiling_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/profiling"
)

// ask sends a request and returns status and body.
func ask(t *testing.T, server *httptest.Server, method, path string) (status int, body []byte) {
	t.Helper()
	res := begin(t.Context(), t, server, method, path)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body
}

// begin sends a request and returns when its header is there.
func begin(ctx context.Context, t *testing.T, server *httptest.Server, method, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, server.URL+profiling.Path+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// inflated is what a profile holds, which is protobuf in gzip.
func inflated(t *testing.T, profile []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		t.Fatalf("%d bytes are no profile: %v", len(profile), err)
	}
	text, err := io.ReadAll(r)
	if err != nil || len(text) == 0 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	return text
}

func start(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(profiling.Handler())
	t.Cleanup(server.Close)
	return server
}

func TestSnapshots(t *testing.T) {
	server := start(t)
	for path, word := range map[string]string{
		"allocs": "alloc_space", "heap?gc=1": "inuse_space", "goroutine": "TestSnapshots",
		"threadcreate": "threadcreate", "mutex?seconds=0.001": "contentions", "block?seconds=0.001": "contentions",
		"profile?seconds=0.001": "nanoseconds",
	} {
		status, body := ask(t, server, http.MethodGet, path)
		if status != http.StatusOK || !bytes.Contains(inflated(t, body), []byte(word)) {
			t.Errorf("%s: %d, and no word of %s", path, status, word)
		}
	}
	if runtime.SetMutexProfileFraction(-1) != 0 {
		t.Error("contention is still sampled")
	}
}

func TestTextAndTraces(t *testing.T) {
	server := start(t)
	for path, want := range map[string]string{
		"": "goroutine (", "goroutine?debug=1": "goroutine profile: total", "trace?seconds=0.001": "go 1.",
	} {
		if status, body := ask(t, server, http.MethodGet, path); status != http.StatusOK ||
			!strings.Contains(string(body), want) {
			t.Errorf("%q: %d %.100s", path, status, body)
		}
	}
}

func TestWrongRequests(t *testing.T) {
	server := start(t)
	for path, want := range map[string]int{
		"nothing": http.StatusNotFound, "profile?seconds=x": http.StatusBadRequest,
		"trace?seconds=-1": http.StatusBadRequest, "mutex?seconds=NaN": http.StatusBadRequest,
		"profile?seconds=1e30": http.StatusBadRequest,
	} {
		if status, body := ask(t, server, http.MethodGet, path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := ask(t, server, http.MethodDelete, "profile"); status != http.StatusNotFound {
		t.Errorf("a profile was ended that nobody had begun: %d", status)
	}
}

// The length of what is to be profiled need not be known before.
func TestACPUProfileIsEnded(t *testing.T) {
	server := start(t)
	first := begin(t.Context(), t, server, http.MethodGet, "profile?seconds=3600")
	defer first.Body.Close()
	if status, body := ask(t, server, http.MethodGet, "profile?seconds=1"); status != http.StatusConflict {
		t.Errorf("a second one: %d %s", status, body)
	}
	if status, _ := ask(t, server, http.MethodDelete, "profile"); status != http.StatusNoContent {
		t.Errorf("ending it: %d", status)
	}
	body, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	inflated(t, body)
	if status, _ := ask(t, server, http.MethodGet, "profile?seconds=0.001"); status != http.StatusOK {
		t.Errorf("the next one: %d", status)
	}
}

func TestACallerThatGoesEndsItsProfile(t *testing.T) {
	server := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := begin(ctx, t, server, http.MethodGet, "profile?seconds=3600")
	cancel()
	_ = gone.Body.Close() // it has been cut
	for {
		if status, _ := ask(t, server, http.MethodGet, "profile?seconds=0.001"); status == http.StatusOK {
			return
		}
	}
}
