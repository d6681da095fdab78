package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

const trustedOrigin = "https://admin.example.com"

// TestPreflight: what a browser is told that asks whether a page may send something.
func TestPreflight(t *testing.T) {
	h := api(t, &echo{}, Options{TrustedOrigins: []string{trustedOrigin}})
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/v1/namespaces/ns/jobs/a/b", "/v1/elsewhere", "/livez"} {
			w := send(h, "OPTIONS "+path, "", "Origin", trustedOrigin, "Access-Control-Request-Method", method,
				"Access-Control-Request-Headers", "content-type,if-match")
			got := w.Header()
			if w.Code != http.StatusNoContent || got.Get("Access-Control-Allow-Origin") != trustedOrigin ||
				!strings.Contains(got.Get("Access-Control-Allow-Methods"), method) ||
				!strings.Contains(got.Get("Access-Control-Allow-Headers"), "If-Match") ||
				!strings.Contains(got.Get("Access-Control-Allow-Headers"), "traceparent, tracestate") || got.Get("Vary") != "Origin" {
				t.Errorf("%s %s: %d %v", method, path, w.Code, got)
			}
		}
	}
	w := send(h, "OPTIONS /v1/cluster", "", "Origin", trustedOrigin, "Access-Control-Request-Method", "PUT",
		"Access-Control-Request-Private-Network", "true")
	if w.Header().Get("Access-Control-Allow-Private-Network") != "true" {
		t.Errorf("a node in a private network: %v", w.Header())
	}
}

// TestNobodyElseIsTrusted: other origins are told nothing, and neither is anybody when none is trusted.
func TestNobodyElseIsTrusted(t *testing.T) {
	for _, c := range []struct {
		trusted []string
		origin  string
	}{
		{[]string{trustedOrigin}, "https://evil.test"},
		{[]string{trustedOrigin}, "null"},
		{[]string{trustedOrigin}, trustedOrigin + ".evil.test"},
		{[]string{trustedOrigin}, strings.Replace(trustedOrigin, "https", "http", 1)},
		{[]string{trustedOrigin}, trustedOrigin + ":8443"},
		{nil, trustedOrigin},
		{nil, ""},
	} {
		for _, method := range []string{"GET", "OPTIONS", "PUT"} {
			h := api(t, &echo{}, Options{TrustedOrigins: c.trusted})
			w := send(h, method+" /v1/namespaces/ns/jobs/x", "", "Origin", c.origin,
				"Access-Control-Request-Method", "PUT")
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s from %q, trusted %v: %s", method, c.origin, c.trusted, name)
				}
			}
			if method == "OPTIONS" && w.Code != http.StatusMethodNotAllowed {
				t.Errorf("a preflight from %q: %d", c.origin, w.Code)
			}
		}
	}
}

// TestTrustedOriginReadsErrors: a page sees why it was refused.
func TestTrustedOriginReadsErrors(t *testing.T) {
	h := api(t, &echo{}, Options{TrustedOrigins: []string{trustedOrigin}})
	for _, request := range []string{"PUT /v1/namespaces/ns/jobs/x?force=1", "GET /v1/nothing", "POST /livez"} {
		w := send(h, request, "{}", "Origin", trustedOrigin, "Sec-Fetch-Site", "cross-site")
		if w.Code < 400 || w.Header().Get("Access-Control-Allow-Origin") != trustedOrigin ||
			!strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "ETag") {
			t.Errorf("%s: %d %v", request, w.Code, w.Header())
		}
	}
}
