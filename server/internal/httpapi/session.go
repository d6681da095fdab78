package httpapi

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
)

// A session is a cookie that no script reads, for pages that the node serves. Browsers keep cookies of
// __Host- to the host that set them, over TLS alone. On loopback without TLS some keep no such cookie, so it
// has another name there.
const (
	sessionPath   = "/v1/session"
	cookieSecure  = "__Host-carillon"
	cookiePlain   = "carillon"
	secFetchSite  = "Sec-Fetch-Site"
	maxLoginBytes = 4 << 10
)

// sessionRoutes are the paths of sessions.
func (h *handler) sessionRoutes() []route {
	get := newRoute(&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: sessionPath}})
	begin := newRoute(&annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: sessionPath}})
	end := newRoute(&annotations.HttpRule{Pattern: &annotations.HttpRule_Delete{Delete: sessionPath}})
	get.raw, begin.raw, end.raw = h.getSession, h.beginSession, h.endSession
	return []route{get, begin, end}
}

// cookieName is the name of the cookie where a request comes from; "": there are no sessions.
func cookieName(r *http.Request) string {
	switch {
	case r.TLS != nil:
		return cookieSecure
	case onLoopback(r):
		return cookiePlain
	}
	return ""
}

// onLoopback reports whether a request comes from this machine, to a name that only this machine has: not
// through a proxy that is on it.
func onLoopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if at, err := netip.ParseAddr(host); err == nil {
		return at.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// session returns the session that a request shows; "": none. It counts for the API alone, and only if a page
// of the node itself, or nobody's, has made the request.
func session(r *http.Request) (string, error) {
	name := cookieName(r)
	begins := r.URL.Path == sessionPath && r.Method == http.MethodPost // another one
	if name == "" || begins || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return "", nil
	}
	all := r.CookiesNamed(name)
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", carillon.Errorf(carillon.Unauthenticated, "", "more than one session was given")
	case !ownPage(r, reads(r)):
		return "", carillon.Errorf(carillon.PermissionDenied, "Origin",
			"a session is for pages of this node alone: show an API key, as Authorization: Bearer ck_…")
	}
	return cmp.Or(all[0].Value, "-"), nil // an empty one is wrong, not none
}

// ownPage reports whether a page of the same origin has made a request, as browsers say it. unsaid is the
// answer if nothing is said of it.
func ownPage(r *http.Request, unsaid bool) bool {
	if site := r.Header.Get(secFetchSite); site != "" {
		return site == "same-origin" || site == "none" && reads(r) // none: a person has typed the address
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return unsaid
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// setSession has the browser keep a session for a while; a negative one: no more.
func setSession(w http.ResponseWriter, r *http.Request, value string, lasts time.Duration) {
	age := int(lasts / time.Second)
	if lasts <= 0 {
		age = -1
	}
	//nolint:gosec // without TLS it is for loopback, where browsers would not keep a secure cookie
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

// getSession says who the caller is.
func (h *handler) getSession(w http.ResponseWriter, r *http.Request, _ *found) (string, error) {
	const method = "GetSession"
	if err := noQuery(r); err != nil {
		return method, err
	}
	h.tell(w, access.From(r.Context()))
	return method, nil
}

// tell answers with who a caller is.
func (h *handler) tell(w http.ResponseWriter, p *access.Principal) {
	if h.options.Access == nil {
		p = &access.Principal{Kind: "local", Grants: []carillon.AccessGrant{
			{Role: carillon.RoleAdmin, Namespaces: []string{"*"}}}}
	}
	respond(w, wire.SessionToProto(cmp.Or(h.options.Authentication, "none"), string(p.Kind), p.ID, p.Grants,
		p.Expires))
}

// beginSession begins a session by an API key. As nothing has judged its caller before, it says itself whom
// it has refused.
func (h *handler) beginSession(w http.ResponseWriter, r *http.Request, _ *found) (string, error) {
	const method = "BeginSession"
	err := h.login(w, r)
	if errors.Is(err, carillon.Unauthenticated) || errors.Is(err, carillon.PermissionDenied) {
		h.refused(r, method, nil, err)
	}
	return method, err
}

func (h *handler) login(w http.ResponseWriter, r *http.Request) error {
	if err := noQuery(r); err != nil {
		return err
	}
	gate := h.options.Access
	switch {
	case gate == nil:
		return carillon.Errorf(carillon.FailedPrecondition, "",
			"nobody need log in: this node authenticates no callers (authentication: none)")
	case len(r.Header.Values("Authorization")) > 0:
		return invalid("Authorization", "a session is begun by the key in the body: leave it out")
	case !ownPage(r, true):
		return carillon.Errorf(carillon.PermissionDenied, "Origin",
			"a session is for pages of this node alone")
	case cookieName(r) == "":
		return carillon.Errorf(carillon.FailedPrecondition, "",
			"sessions need TLS at this node (serve --tls-cert), but on the machine itself, at localhost")
	}
	var m pb.BeginSessionRequest
	r.Body = http.MaxBytesReader(w, r.Body, maxLoginBytes)
	if err := h.readBody(w, r, &route{body: "*"}, m.ProtoReflect()); err != nil {
		return err
	}
	if m.GetKey() == "" {
		w.Header().Set("WWW-Authenticate", bearerRealm)
		return carillon.Errorf(carillon.Unauthenticated, "key", "no API key was given")
	}
	text, p, err := gate.Login(m.GetKey())
	if err != nil {
		return err
	}
	setSession(w, r, text, p.Expires.Sub(gate.Now()))
	h.tell(w, p)
	return nil
}

// endSession has the browser forget its session, whether it is one or not.
func (h *handler) endSession(w http.ResponseWriter, r *http.Request, _ *found) (string, error) {
	const method = "EndSession"
	if err := noQuery(r); err != nil {
		return method, err
	}
	if cookieName(r) != "" {
		setSession(w, r, "", -1)
	}
	respond(w, &pb.EndSessionResponse{})
	return method, nil
}

// anonymous reports whether a request is about the session that it is to get or to lose, and so is for
// whoever makes it.
func anonymous(r *http.Request, shown access.Shown) bool {
	if r.URL.Path != sessionPath || len(shown.Authorization) > 0 {
		return false
	}
	return r.Method == http.MethodPost || r.Method == http.MethodDelete && shown.Session != ""
}

// noQuery refuses query parameters.
func noQuery(r *http.Request) error {
	if r.URL.RawQuery != "" {
		return invalid("", "there are no query parameters here")
	}
	return nil
}
