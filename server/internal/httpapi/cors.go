package httpapi

import (
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/internal/tracecontext"
)

// What a page of a trusted origin may say and read besides what any page may. Browsers send no credentials by
// themselves: a page shows an API key, if it has one.
const (
	corsMethods = "GET, HEAD, PUT, PATCH, POST, DELETE"
	corsHeaders = "Authorization, Content-Type, Last-Event-ID, " + headerIfMatch + ", " + headerIfNoneMatch + ", " +
		headerToken + ", " + tracecontext.Parent + ", " + tracecontext.State
	corsExposed = "ETag, Location, Retry-After, Allow"
	corsMaxAge  = "600" // seconds for which a browser need not ask again
)

// cors lets pages of trusted origins call the API from a browser: it answers the question that a browser asks
// before it sends what a form could not have sent, and says that the page may read the answer. Whether a
// request may change something is not decided here: [http.CrossOriginProtection] does that, and does it also
// for what a browser sends without asking.
func cors(trusted []string, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	allowed := map[string]bool{}
	for _, origin := range trusted {
		allowed[origin] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Origin") // also for others: a cache must not give them what a trusted one was told
		origin := r.Header.Get("Origin")
		if !allowed[origin] {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", corsExposed)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Methods", corsMethods)
		header.Set("Access-Control-Allow-Headers", corsHeaders)
		header.Set("Access-Control-Max-Age", corsMaxAge)
		if strings.EqualFold(r.Header.Get("Access-Control-Request-Private-Network"), "true") {
			header.Set("Access-Control-Allow-Private-Network", "true")
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
