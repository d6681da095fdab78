package page_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/page"
)

func newPage(t *testing.T) *page.Page {
	t.Helper()
	p, err := page.New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(method, path string, header map[string]string) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return r
}

const html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestWhoIsServed: addresses of the page are for who reads pages; what programs ask for is not hidden behind it.
func TestWhoIsServed(t *testing.T) {
	p := newPage(t)
	for _, c := range []struct {
		method, path, accept string
		want                 bool
	}{
		{"GET", "/", "*/*", true}, {"HEAD", "/", "", true}, {"POST", "/", html, false},
		{"GET", "/jobs/default/a/b", html, true}, {"GET", "/jobs/default/a/b", "*/*", false},
		{"GET", "/jobs/default/a/b", "application/json", false}, {"DELETE", "/jobs/default/a/b", html, false},
		{"GET", "/page/page.js", "*/*", true}, {"GET", "/page/index.css", "text/css", true},
		{"GET", "/page/other.js", html, false}, {"GET", "/page/../page.go", html, false}, {"GET", "/page/", html, false},
	} {
		if got := p.Serves(request(c.method, c.path, map[string]string{"Accept": c.accept})); got != c.want {
			t.Errorf("%s %s for %q: served %v", c.method, c.path, c.accept, got)
		}
	}
}

// TestWhatTheDocumentLoads is there, and nothing in it is inline or from elsewhere.
func TestWhatTheDocumentLoads(t *testing.T) {
	p := newPage(t)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, request("GET", "/any/where", map[string]string{"Accept": html}))
	text := w.Body.String()
	paths := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(paths) != 4 {
		t.Errorf("it loads %q", paths)
	}
	for _, path := range paths {
		if !p.Serves(request("GET", path[1], nil)) {
			t.Errorf("%s is not there", path[1])
		}
	}
	if regexp.MustCompile(`<style|style=|<script[^>]*>[^<]|\son\w+=`).MatchString(text) {
		t.Errorf("something is inline: %s", text)
	}
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, want) ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("policy: %s", policy)
		}
	}
}

// TestHowItIsSent: packed for who can unpack it, and not again for who has it.
func TestHowItIsSent(t *testing.T) {
	p := newPage(t)
	sent := func(method string, header map[string]string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, request(method, "/page/page.js", header))
		return w
	}
	plain, packed := sent("GET", nil), sent("GET", map[string]string{"Accept-Encoding": "br, gzip;q=0.5"})
	r, err := gzip.NewReader(bytes.NewReader(packed.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(unpacked, plain.Body.Bytes()) {
		t.Errorf("unpacked it is something else: %v", err)
	}
	if packed.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" {
		t.Errorf("encodings: %v, %v", packed.Header(), plain.Header())
	}
	if none := sent("GET", map[string]string{"Accept-Encoding": "gzip;q=0"}); none.Header().Get("Content-Encoding") != "" {
		t.Error("it is packed for who does not want that")
	}
	if head := sent("HEAD", nil); head.Body.Len() != 0 || head.Header().Get("Content-Length") != plain.Header().Get("Content-Length") {
		t.Errorf("HEAD: %v", head.Header())
	}
	if vary := plain.Header().Get("Vary"); vary != "Accept, Accept-Encoding" {
		t.Errorf("Vary: %s", vary) // who does not ask for HTML gets something else at the same address
	}
	tag := plain.Header().Get("ETag")
	if tag == packed.Header().Get("ETag") {
		t.Error("both forms have one tag")
	}
	for header, want := range map[string]int{tag: 304, `"x", W/` + tag: 304, `"x"`: 200, "": 200} {
		if w := sent("GET", map[string]string{"If-None-Match": header}); w.Code != want || want == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match %s: %d", header, w.Code)
		}
	}
	if packed.Body.Len() > 150<<10 {
		t.Errorf("%d bytes", packed.Body.Len())
	}
}
