package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/page"
)

// TestThePageHidesNothing: what the node has comes first, and what needs a credential needs it still. The page
// itself needs none.
func TestThePageHidesNothing(t *testing.T) {
	p, err := page.New()
	if err != nil {
		t.Fatal(err)
	}
	gate := &access.Gate{Now: time.Now}
	for _, o := range []Options{{Page: p}, {Page: p, Access: gate}} {
		h, err := New(&echo{}, o)
		if err != nil {
			t.Fatal(err)
		}
		for path, shown := range map[string]bool{"/": true, "/jobs/a/b": true, "/page/page.js": true, "/v1": false,
			"/v1/": false, "/v1/nothing": false, "/v1/namespaces/default/jobs": false, "/openapi.json": false, "/metrics": false,
			"/livez": false, "/readyz": false} {
			r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			r.Header.Set("Accept", "text/html")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			body, err := io.ReadAll(w.Result().Body)
			if err != nil {
				t.Fatal(err)
			}
			is := strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src") && w.Code == http.StatusOK
			if is != shown {
				t.Errorf("%s, access judged %v: %d %.80s", path, o.Access != nil, w.Code, body)
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, w.Header())
			}
		}
	}
}
