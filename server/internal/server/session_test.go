package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/nodetls"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
)

// browser is one without its rules: it shows what a test says.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
	cookie *http.Cookie
}

// ask makes a request with headers as pairs, and returns its status and the body.
func (b *browser) ask(method, path, body string, headers ...string) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.cookie != nil {
		req.AddCookie(&http.Cookie{Name: b.cookie.Name, Value: b.cookie.Value})
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if all := resp.Cookies(); len(all) == 1 {
		b.cookie = all[0]
	}
	return resp.StatusCode, string(text)
}

// login begins a session.
func (b *browser) login(key string) {
	b.t.Helper()
	if code, body := b.ask("POST", "/v1/session", `{"key": "`+key+`"}`); code != http.StatusOK || b.cookie == nil {
		b.t.Fatal(code, body)
	}
}

const samePage = "same-origin"

// TestASessionInABrowser: begun by a key on one node, a session counts on all of them until the key ends, for
// requests of the node's own pages alone.
func TestASessionInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	url := "redis://" + realserver.StartRedis(t).Address()
	root := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	var nodes []*browser
	var d *doors
	for _, name := range []string{"one", "two"} {
		s := serve(t, server.Config{Store: url, Name: name, Extensions: server.Extensions{Auth: server.AuthKeys},
			Browsers: server.Browsers{TrustedOrigins: []string{"https://admin.example"}}})
		nodes = append(nodes, &browser{t: t, url: "http://" + s.HTTPAddr(), client: &http.Client{}})
		d = &doors{t: t, node: s, keys: map[string]string{"right": root.Secret}}
	}
	admin := d.client("right")
	made, err := admin.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleProducer, "a")})
	if err != nil {
		t.Fatal(err)
	}
	one, two := nodes[0], nodes[1]
	one.login(made.Secret)
	c := one.cookie
	if c.Name != "carillon" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		c.MaxAge < 12*3600-60 || c.MaxAge > 12*3600 || strings.Contains(c.Value, made.Secret[20:40]) {
		t.Errorf("%+v", c)
	}
	two.cookie = c
	var who struct {
		Authentication, Kind, ID string
		Grants                   []carillon.AccessGrant
		ExpireTime               string `json:"expire_time"`
	}
	code, body := two.ask("GET", "/v1/session", "")
	if err := json.Unmarshal([]byte(body), &who); err != nil || code != http.StatusOK || who.Authentication != "keys" || who.Kind != "key" ||
		who.ID != made.Key.ID || len(who.Grants) != 1 || who.Grants[0].Role != carillon.RoleProducer || who.ExpireTime == "" {
		t.Errorf("%d %s", code, body)
	}
	const path, job = "/v1/namespaces/a/jobs/j", `{"due_time": "24h", "target": {"worker": {"queue": "q"}}}`
	origin := strings.TrimPrefix(two.url, "http://")
	for _, r := range []struct {
		method, path, headers string
		want                  int
	}{
		{"PUT", path, "Sec-Fetch-Site " + samePage, 201},
		{"PUT", path, "Origin http://" + origin, 200},
		{"PUT", path, "", 403},
		{"PUT", path, "Sec-Fetch-Site cross-site", 403},
		{"PUT", path, "Sec-Fetch-Site same-site", 403},
		{"PUT", path, "Sec-Fetch-Site none", 403},
		{"PUT", path, "Origin https://admin.example", 403}, // trusted for what it shows itself
		{"PUT", path, "Origin null", 403},
		{"PUT", path, "Sec-Fetch-Site " + samePage + " Authorization Bearer " + made.Secret, 401},
		{"GET", path, "", 200},
		{"GET", path, "Sec-Fetch-Site none", 200},
		{"GET", path, "Sec-Fetch-Site cross-site", 403},
		{"GET", "/metrics", "", 401},
		{"GET", "/openapi.json", "", 401},
		{"PUT", "/v1/namespaces/b/jobs/j", "Sec-Fetch-Site " + samePage, 404},
		{"DELETE", "/v1/session", "Sec-Fetch-Site cross-site", 403},
		{"POST", "/v1/session", "Sec-Fetch-Site cross-site", 403},
		{"POST", "/v1/session", "Origin https://admin.example", 403},
		{"POST", "/v1/session?a=b", "Sec-Fetch-Site " + samePage, 400},
		{"POST", "/v1/session", "Sec-Fetch-Site " + samePage, 400}, // the body of a job
	} {
		var headers []string
		if name, value, ok := strings.Cut(r.headers, " "); ok {
			value, authorization, _ := strings.Cut(value, " Authorization ")
			if headers = []string{name, value}; authorization != "" {
				headers = append(headers, "Authorization", authorization)
			}
		}
		if code, body := two.ask(r.method, r.path, job, headers...); code != r.want {
			t.Errorf("%+v: %d %s", r, code, body)
		}
	}
	if _, err := admin.RevokeKey(t.Context(), made.Key.ID); err != nil {
		t.Fatal(err)
	}
	if code, body := one.ask("GET", path, ""); code != http.StatusUnauthorized {
		t.Errorf("after the key was revoked on the other node: %d %s", code, body)
	}
	if code, _ := one.ask("DELETE", "/v1/session", "", "Sec-Fetch-Site", samePage); code != http.StatusOK || one.cookie.MaxAge >= 0 || one.cookie.Value != "" {
		t.Errorf("%d %+v", code, one.cookie)
	}
	one.cookie = nil
	if code, _ := one.ask("POST", "/v1/session", `{"key": "`+made.Secret+`"}`); code != http.StatusUnauthorized {
		t.Errorf("a revoked key logs in: %d", code)
	}
}

// TestSessionsOverTLS: the cookie is bound to the host and to TLS. Without TLS there is none at a name that
// others may have, such as behind a proxy.
func TestSessionsOverTLS(t *testing.T) {
	d := openDoors(t)
	plain := &browser{t: t, url: "http://" + d.node.HTTPAddr(), client: &http.Client{}}
	plain.client.Transport = hostTransport("carillon.internal")
	if code, body := plain.ask("POST", "/v1/session", `{"key": "`+d.keys["right"]+`"}`); code != http.StatusConflict || !strings.Contains(body, "TLS") {
		t.Errorf("at a name of others: %d %s", code, body)
	}
	plain.client.Transport = nil
	plain.login(d.keys["right"])
	plain.client.Transport = hostTransport("carillon.internal")
	if code, _ := plain.ask("GET", "/v1/session", ""); code != http.StatusUnauthorized {
		t.Errorf("a session at a name of others: %d", code)
	}
	nodes, url := testca.New(t), "pebble:"+t.TempDir()
	secret := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret
	f := nodetls.Files{}
	f.Cert, f.Key = nodes.Issue(nil, "127.0.0.1").Files(t)
	s := serve(t, server.Config{Store: url, Partitions: 4, Credentials: tlsOf(t, f),
		Extensions: server.Extensions{Auth: server.AuthKeys}})
	b := &browser{t: t, url: "https://" + s.HTTPAddr(), client: &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(nodes)}}}
	defer b.client.CloseIdleConnections()
	b.login(secret)
	if c := b.cookie; c.Name != "__Host-carillon" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	if code, body := b.ask("GET", "/v1/session", ""); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	b.cookie.Name = "carillon"
	if code, _ := b.ask("GET", "/v1/session", ""); code != http.StatusUnauthorized {
		t.Errorf("a cookie that pages of other hosts could have set: %d", code)
	}
}

// hostTransport makes requests to a host by another name.
type hostTransport string

// RoundTrip implements [http.RoundTripper].
func (h hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(context.WithoutCancel(r.Context()))
	r.Host = string(h)
	return http.DefaultTransport.RoundTrip(r)
}

// TestSessionsWhereNobodyIsAuthenticated: everybody is told that he may do everything.
func TestSessionsWhereNobodyIsAuthenticated(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:"})
	b := &browser{t: t, url: "http://" + s.HTTPAddr(), client: &http.Client{}}
	if code, body := b.ask("GET", "/v1/session", ""); code != http.StatusOK || !strings.Contains(body, `"authentication":"none"`) ||
		!strings.Contains(body, `"role":"admin"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := b.ask("POST", "/v1/session", `{"key": "ck_"}`); code != http.StatusConflict || !strings.Contains(body, "authentication: none") {
		t.Errorf("%d %s", code, body)
	}
}
