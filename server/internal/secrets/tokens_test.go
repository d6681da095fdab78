package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/secretref"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
)

// rig is a set with one secret, "t", whose tokens an endpoint gives.
type rig struct {
	*Set
	log   strings.Builder
	asked atomic.Int64
	use   httptarget.SecretUse
}

const clientSecret = "hunter2-client"

// newRig has an endpoint answer by the handler; loopback says whether its address may be reached.
func newRig(t *testing.T, loopback bool, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		answer(w, req)
	}))
	t.Cleanup(endpoint.Close)
	text := "secrets: {t: {oauth2: {token_url: '" + endpoint.URL + "/token', client_id: me, client_secret: {file: value}, " +
		"scopes: [x, y], audience: z}, namespaces: [shop], hosts: [a.test], allow_http: true}}"
	all, err := Read(write(t, text, clientSecret))
	if err != nil {
		t.Fatal(err)
	}
	var o httptarget.Options
	if loopback {
		o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	r.Set = NewSet(httptarget.Client(o), slog.New(slog.NewTextHandler(&r.log, nil)))
	t.Cleanup(r.Close)
	r.Apply(all)
	r.use = httptarget.SecretUse{Ref: secretref.Ref{Name: "t"}, Header: "authorization", Namespace: "shop",
		URL: &url.URL{Scheme: "https", Host: "a.test"}}
	return r
}

func (r *rig) value(t *testing.T) (string, error) { return r.Value(t.Context(), r.use) }

// gives answers with a token.
func gives(token string, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"%s}`, token, more)
	}
}

// TestManyAttemptsAskForOneToken also tells what is asked.
func TestManyAttemptsAskForOneToken(t *testing.T) {
	r := newRig(t, true, func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		if err := req.ParseForm(); err != nil || user != "me" || password != clientSecret || req.Form.Get("scope") != "x y" ||
			req.Form.Get("audience") != "z" || req.Form.Get("grant_type") != "client_credentials" {
			t.Errorf("asked by %s: %v, %v", user, req.Form, err)
		}
		gives("tok", `,"expires_in":3600`)(w, req)
	})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if got, err := r.value(t); err != nil || got != "Bearer tok" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	if n := r.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestEndpointsThatGiveNoToken: an attempt fails with a reason that shows nothing of the answer, and the next
// ones do not ask.
func TestEndpointsThatGiveNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"401": {func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, password, _ := req.BasicAuth()
			fmt.Fprintf(w, `{"error":"invalid_client","error_description":%q}`, password)
		}, "answered 401 invalid_client"},
		"503": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "answered 503"},
		"its own code": {func(w http.ResponseWriter, req *http.Request) {
			_, password, _ := req.BasicAuth()
			fmt.Fprintf(w, `{"error":%q}`, password)
		}, "answered 200"},
		"redirect": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/token", http.StatusTemporaryRedirect)
		}, "answered 307"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"`+strings.Repeat("x", 1<<20)+`"}`)
		}, "larger than 64 KiB"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, clientSecret) },
			"has no token"},
		"a long token": {gives(strings.Repeat("x", maxToken+1), ""), "more than"},
		"line break":   {gives("tok\r\nX-Injected: 1", ""), "character"},
		"another kind": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"tok","token_type":"mac"}`)
		}, "no bearer token"},
		"away": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, err = io.WriteString(conn, clientSecret+"\r\n\r\n")
			}
			if err = errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true, c.answer)
			for range 50 {
				_, err := r.value(t)
				e, ok := errors.AsType[*httptarget.SecretError](err)
				if !ok || !strings.Contains(e.Message, "secret t: ") || !strings.Contains(e.Message, c.want) ||
					e.RetryAfter <= 0 || e.RetryAfter > firstBackoff {
					t.Fatalf("%+v", err)
				}
				if e.Passes != (name == "away" || name == "503") {
					t.Errorf("it passes: %v", e.Passes)
				}
				if strings.Contains(e.Message, "hunter2") {
					t.Errorf("the error shows the secret: %s", e.Message)
				}
			}
			if n := r.asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if r.Close(); strings.Contains(r.log.String(), "hunter2") || strings.Count(r.log.String(), "\n") != 1 {
				t.Errorf("the log:\n%s", r.log.String())
			}
		})
	}
}

// TestAnEndpointInTheNetworkOfTheNode is not reached unless its address is allowed.
func TestAnEndpointInTheNetworkOfTheNode(t *testing.T) {
	r := newRig(t, false, gives("tok", ""))
	_, err := r.value(t)
	if err == nil || !strings.Contains(err.Error(), "--allow-target") || r.asked.Load() != 0 {
		t.Errorf("asked %d times: %v", r.asked.Load(), err)
	}
}

// TestASlowEndpoint holds attempts for as long as they wait, and ends with the set.
func TestASlowEndpoint(t *testing.T) {
	asked, free := make(chan struct{}, 10), make(chan struct{})
	r := newRig(t, true, func(w http.ResponseWriter, req *http.Request) {
		asked <- struct{}{}
		select {
		case <-req.Context().Done():
		case <-free:
		}
	})
	defer close(free)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := r.Value(ctx, r.use); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("an attempt whose time is over: %v", err)
	}
	r.Close()
	if _, err := r.value(t); err == nil {
		t.Error("a closed set gives a token")
	}
	if n := r.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
