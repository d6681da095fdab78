package httpapi

import (
	"errors"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
)

// Probe reports whether a path is that of a probe. Those are open to everyone, who gets a [CodeOnly].
func Probe(path string) bool { return path == "/livez" || path == "/readyz" }

// CodeOnly answers a probe of who has not shown who he is with the status code alone: what is wrong with the
// store, which may name hosts and users, is not for everyone.
type CodeOnly struct{ http.ResponseWriter }

// Write implements [io.Writer].
func (CodeOnly) Write(b []byte) (int, error) { return len(b), nil }

// identified lets in who shows a credential, if callers are judged at all.
func (h *handler) identified(next http.Handler) http.Handler {
	gate := h.options.Access
	if gate == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, err := shownBy(r)
		var p *access.Principal
		switch {
		case h.shows(r), err == nil && anonymous(r, shown):
			next.ServeHTTP(w, r)
			return
		case err != nil:
		default:
			p, err = gate.Identify(r.Context(), shown)
		}
		if err != nil && len(shown.Authorization) == 0 && Probe(r.URL.Path) {
			next.ServeHTTP(CodeOnly{w}, r)
			return
		}
		if err != nil {
			h.refused(r, "", nil, err)
			w.Header().Set("Cache-Control", "no-store")
			if errors.Is(err, carillon.Unauthenticated) {
				w.Header().Set("WWW-Authenticate", bearerRealm)
			}
			WriteProblem(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), p)))
	})
}

// bearerRealm is what is said to who has not shown who he is.
const bearerRealm = `Bearer realm="carillon"`

// shownBy returns what a request shows.
func shownBy(r *http.Request) (shown access.Shown, err error) {
	shown.Authorization = r.Header.Values("Authorization")
	shown.Session, err = session(r)
	return shown, err
}

// judge refuses a call that no interceptor is around.
func (h *handler) judge(r *http.Request, method string, m proto.Message) error {
	if h.options.Access == nil {
		return nil
	}
	err := h.options.Access.Judge(r.Context(), method, m)
	if err != nil {
		h.refused(r, method, m, err)
	}
	return err
}

// refused says that a request was refused for what its caller has shown.
func (h *handler) refused(r *http.Request, method string, m any, err error) {
	if h.options.Audit != nil {
		h.options.Audit.Refused(r.Context(), method, m, err)
	}
}

// metrics serves the metrics to who may read them.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	if gate := h.options.Access; gate != nil {
		if err := gate.Metrics(r.Context()); err != nil {
			h.refused(r, "", nil, err)
			WriteProblem(w, err)
			return
		}
	}
	h.options.Metrics.ServeHTTP(w, r)
}
