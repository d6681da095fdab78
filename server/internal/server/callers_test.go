package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/nodetls"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/testca"
	"github.com/carillonhq/carillon/server/internal/testing/testissuer"
)

// granted is a rule of a file: what it is about, then every role, or one, in a namespace.
func granted(about, namespace string, roles ...carillon.Role) string {
	if len(roles) == 0 {
		roles = carillon.Roles()
	}
	text := "- " + about + "\n  grants:\n"
	for _, role := range roles {
		text += fmt.Sprintf("  - {role: %s, namespaces: [%q]}\n", role, namespace)
	}
	return text
}

func claim(name, value string) string { return "claim: " + name + "\n  value: " + value }

// rulesIn writes a file of rules.
func rulesIn(t *testing.T, rules ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rules.yaml")
	testca.Write(t, path, []byte("rules:\n"+strings.Join(rules, "")))
	return path
}

const tokenAudience = "carillon"

// openToTokens is a node that takes tokens of an issuer, and API keys.
func openToTokens(t *testing.T) (d *doors, issuer *testissuer.Issuer, rules string) {
	t.Helper()
	issuer, other := testissuer.New(t), testissuer.New(t)
	token := func(change map[string]any) string { return issuer.Token(tokenAudience, change) }
	d = &doors{t: t, log: &syncBuffer{}, keys: map[string]string{"none": "",
		"expired":         token(map[string]any{"groups": "ops", "exp": time.Now().Add(-time.Second).Unix()}),
		"wrong audience":  issuer.Token("other", map[string]any{"groups": "ops"}),
		"wrong issuer":    other.Token(tokenAudience, map[string]any{"groups": "ops"}),
		"wrong signature": testissuer.Sign(t, testissuer.NewKey(t), "1", issuer.Claims(tokenAudience)),
		"tenant":          token(map[string]any{"groups": []string{"x", "other"}}),
		"viewer":          token(map[string]any{"realm": map[string]any{"roles": []string{"viewer"}}}),
		"unruled":         token(map[string]any{"groups": "nobody"}),
		"right":           token(map[string]any{"groups": []string{"ops"}}),
	}}
	rules = rulesIn(t, granted(claim("groups", "ops"), "*"), granted(claim("groups", "other"), "other"),
		granted(claim("[realm, roles]", "viewer"), "a", carillon.RoleViewer))
	url := "pebble:" + t.TempDir()
	d.keys["key"] = firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret
	d.node = serve(t, server.Config{Store: url, Partitions: 4,
		Log: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Extensions: server.Extensions{Auth: "keys, oidc", AuthRules: rules,
			OIDC: server.OIDC{Issuer: issuer.URL, Audience: tokenAudience}}})
	d.root = d.client("key")
	return d, issuer, rules
}

// TestEveryCallIsJudgedByTokens: the same of tokens as of keys.
func TestEveryCallIsJudgedByTokens(t *testing.T) {
	d, _, _ := openToTokens(t)
	d.judgesEveryCall(d.conn(), "none", "expired", "wrong audience", "wrong issuer", "wrong signature")
	for name, token := range d.keys {
		if token != "" && strings.Contains(d.log.String(), token[len(token)-20:]) {
			t.Errorf("the log has the token %q", name)
		}
	}
}

// TestWhatTokensAreGranted: by their rules alone, in the words of what is not there where they have none; keys
// go on beside them, and a token may not make a key that outlives it.
func TestWhatTokensAreGranted(t *testing.T) {
	d, issuer, _ := openToTokens(t)
	for who, want := range map[string]error{"right": nil, "key": nil, "viewer": nil, "tenant": carillon.NotFound,
		"unruled": carillon.NotFound, "expired": carillon.Unauthenticated} {
		_, err := d.client(who).ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	of := func(who string) string {
		_, err := d.client(who).GetJob(t.Context(), carillon.Key{Namespace: "a", Name: "b"})
		return fmt.Sprint(err)
	}
	if there, not := of("tenant"), of("right"); there != not {
		t.Errorf("another tenant is told %q, where there is nothing %q", there, not)
	}
	end := time.Now().Add(30 * time.Minute)
	created, err := d.client("right").CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a"), Expires: end})
	if err != nil || created.Key.Creator != "oidc "+issuer.URL+" alice" {
		t.Errorf("%+v, %v", created.Key, err)
	}
	_, err = d.client("right").CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
	if !errors.Is(err, carillon.PermissionDenied) || !strings.Contains(err.Error(), "expire_time") {
		t.Errorf("a key that does not end, by a token: %v", err)
	}
}

// TestTokensOverHTTP: the codes, and that a node tells how to authenticate.
func TestTokensOverHTTP(t *testing.T) {
	d, _, _ := openToTokens(t)
	for who, want := range map[string]int{"none": 401, "expired": 401, "wrong audience": 401, "right": 200,
		"viewer": 200, "tenant": 404, "key": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+d.node.HTTPAddr()+"/v1/namespaces/a/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.keys[who] != "" {
			req.Header.Set("Authorization", "Bearer "+d.keys[who])
		}
		resp, err := (&http.Client{}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want || (want == 401) != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d, %v", who, resp.StatusCode, resp.Header)
		}
	}
}

// TestAStreamEndsWithItsToken, and when the rules take back what it was granted.
func TestAStreamEndsWithItsToken(t *testing.T) {
	d, issuer, rules := openToTokens(t)
	hello := carillon.Hello{Namespace: "a", Queues: []string{"q"}, WorkerID: "w"}
	d.keys["short"] = issuer.Token(tokenAudience, map[string]any{"groups": "ops",
		"exp": time.Now().Add(2 * time.Second).Unix()})
	ends := func(who string, want error) {
		t.Helper()
		session, err := d.client(who).Connect(t.Context(), hello)
		if err == nil {
			defer session.Close()
			for err == nil {
				_, err = session.Receive(t.Context())
			}
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	ends("short", carillon.Unavailable) // a worker then calls again, maybe with a new token
	ends("short", carillon.Unauthenticated)
	session, err := d.client("right").Connect(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	testca.Write(t, rules, []byte("rules:\n"+granted(claim("groups", "other"), "other")))
	for err == nil {
		_, err = session.Receive(t.Context())
	}
	if !errors.Is(err, carillon.Unavailable) {
		t.Errorf("the rules have changed: %v", err)
	}
	if _, err := d.client("right").ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"}); !errors.Is(err, carillon.NotFound) {
		t.Errorf("its rule is gone: %v", err)
	}
	testca.Write(t, rules, []byte("rules:\n- claim: groups\n"))
	eventually(t, "the fault is logged", func() bool { return strings.Contains(d.log.String(), "stay as they were") })
	if _, err := d.client("tenant").ListJobs(t.Context(), carillon.JobQuery{Namespace: "other"}); err != nil {
		t.Errorf("a wrong file is in force: %v", err)
	}
}

// TestANodeStartsWithoutItsIssuer: tokens cannot be judged until it answers; keys can.
func TestANodeStartsWithoutItsIssuer(t *testing.T) {
	issuer := testissuer.New(t)
	issuer.Away(true)
	url := "pebble:" + t.TempDir()
	d := &doors{t: t, keys: map[string]string{"right": issuer.Token(tokenAudience, map[string]any{"groups": "ops"}),
		"key": firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret}}
	d.node = serve(t, server.Config{Store: url, Partitions: 4, Extensions: server.Extensions{Auth: "oidc,keys",
		AuthRules: rulesIn(t, granted(claim("groups", "ops"), "*")),
		OIDC:      server.OIDC{Issuer: issuer.URL, Audience: tokenAudience}}})
	if _, err := d.client("key").ListJobs(t.Context(), carillon.JobQuery{}); err != nil {
		t.Error(err)
	}
	if _, err := d.client("right").ListJobs(t.Context(), carillon.JobQuery{}); !errors.Is(err, carillon.Unavailable) {
		t.Errorf("%v", err)
	}
	issuer.Away(false)
	eventually(t, "the issuer is asked again", func() bool {
		_, err := d.client("right").ListJobs(t.Context(), carillon.JobQuery{})
		return err == nil
	})
}

// certified is a node that judges by certificates.
type certified struct {
	*doors
	clients, nodes *testca.CA
	rules          string
}

func openToCertificates(t *testing.T, auth string, rules ...string) *certified {
	t.Helper()
	x := &certified{clients: testca.New(t), nodes: testca.New(t), rules: rulesIn(t, rules...)}
	f := nodetls.Files{ClientCA: x.clients.File}
	f.Cert, f.Key = x.nodes.Issue(nil, "127.0.0.1").Files(t)
	url := "pebble:" + t.TempDir()
	x.doors = &doors{t: t, log: &syncBuffer{}, keys: map[string]string{"none": "", "wrong": "ck_wrong",
		"key":    firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret,
		"viewer": firstKey(t, url, carillon.NewKey{Grants: grants(carillon.RoleViewer, "a")}).Secret}}
	x.node = serve(t, server.Config{Store: url, Partitions: 4, Credentials: tlsOf(t, f),
		Log:        slog.New(slog.NewTextHandler(x.log, nil)),
		Extensions: server.Extensions{Auth: auth, AuthRules: x.rules}})
	return x
}

// as is a client that shows a certificate, and a key.
func (x *certified) as(shown tls.Certificate, key string) *client.Client {
	x.t.Helper()
	opts := []client.Option{client.WithTransportCredentials(credentials.NewTLS(clientTLS(x.nodes, shown)))}
	if x.keys[key] != "" {
		opts = append(opts, client.WithToken(x.keys[key]))
	}
	c, err := client.Dial(x.node.GRPCAddr(), opts...)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = c.Close() })
	return c
}

// named is a certificate for names; one without a scheme or dot is the common name.
func (x *certified) named(names ...string) tls.Certificate {
	var sans []string
	cn := ""
	for _, name := range names {
		if strings.ContainsAny(name, ".:") {
			sans = append(sans, name)
		} else {
			cn = name
		}
	}
	return x.clients.Issue(func(c *x509.Certificate) { c.Subject.CommonName = cn }, sans...).TLS(x.t)
}

// TestWhoCertificatesAre: by SPIFFE id, DNS name and common name; what has no rule is granted nothing.
func TestWhoCertificatesAre(t *testing.T) {
	x := openToCertificates(t, "certificates", granted("spiffe: spiffe://example.org/shop", "a"),
		granted("spiffe: spiffe://example.org/ns/*", "a"), granted("dns: shop.example.com", "a"),
		granted("cn: shop", "a"), granted("cn: other", "other"))
	for names, want := range map[string]error{
		"spiffe://example.org/shop":   nil,
		"spiffe://example.org/ns/b/c": nil,
		"shop.example.com":            nil,
		"Shop.Example.com":            nil,
		"x.example.com shop":          nil,
		"shop":                        nil,
		"other":                       carillon.NotFound,
		"":                            carillon.Unauthenticated,
		"Shop":                        carillon.Unauthenticated,
		"spiffe://example.org/shop/x": carillon.Unauthenticated,
		"spiffe://example.org/ns":     carillon.Unauthenticated,
		"spiffe://example.com/shop":   carillon.Unauthenticated,
		"a.shop.example.com":          carillon.Unauthenticated,
		// two ids are none
		"spiffe://example.org/shop spiffe://example.org/x": carillon.Unauthenticated,
	} {
		_, err := x.as(x.named(strings.Fields(names)...), "none").ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v", names, err)
		}
	}
	_, err := x.as(x.named("shop"), "key").ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
	if !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("a key where none are taken: %v", err)
	}
}

// TestCertificatesBesideKeys: a certificate with a rule comes first, one without leaves it to the key, and a
// wrong key is refused in any case.
func TestCertificatesBesideKeys(t *testing.T) {
	x := openToCertificates(t, "keys,certificates", granted("cn: shop", "a", carillon.RoleProducer))
	for who, want := range map[string]struct{ a, b error }{
		"shop none":      {nil, carillon.NotFound},
		"shop key":       {nil, carillon.NotFound}, // though the key may everything
		"shop wrong":     {carillon.Unauthenticated, carillon.Unauthenticated},
		"stranger none":  {carillon.Unauthenticated, carillon.Unauthenticated},
		"stranger key":   {nil, nil},
		"stranger wrong": {carillon.Unauthenticated, carillon.Unauthenticated},
	} {
		name, key, _ := strings.Cut(who, " ")
		c := x.as(x.named(name), key)
		for namespace, want := range map[string]error{"a": want.a, "b": want.b} {
			_, err := c.ListJobs(t.Context(), carillon.JobQuery{Namespace: namespace})
			if want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s in %s: %v", who, namespace, err)
			}
		}
	}
	x.overHTTP()
}

// overHTTP: the same of HTTP, where probes need no certificate.
func (x *certified) overHTTP() {
	get := func(path, key string, shown ...tls.Certificate) int {
		x.t.Helper()
		req, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, "https://"+x.node.HTTPAddr()+path, nil)
		if err != nil {
			x.t.Fatal(err)
		}
		if x.keys[key] != "" {
			req.Header.Set("Authorization", "Bearer "+x.keys[key])
		}
		transport := &http.Transport{TLSClientConfig: clientTLS(x.nodes, shown...), DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			x.t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	const jobs = "/v1/namespaces/a/jobs"
	for what, got := range map[string][2]int{
		"no certificate":          {get(jobs, "key"), 401},
		"a rule":                  {get(jobs, "none", x.named("shop")), 200},
		"no rule":                 {get(jobs, "none", x.named("stranger")), 401},
		"no rule, a key":          {get(jobs, "key", x.named("stranger")), 200},
		"a rule, another's":       {get("/v1/namespaces/b/jobs", "key", x.named("shop")), 404},
		"a probe":                 {get("/readyz", "none"), 200},
		"a probe, with a rule":    {get("/readyz", "none", x.named("shop")), 200},
		"a probe, a wrong key":    {get("/readyz", "wrong", x.named("shop")), 401},
		"metrics, without enough": {get("/metrics", "none", x.named("shop")), 403},
	} {
		if got[0] != got[1] {
			x.t.Errorf("%s: %d, want %d", what, got[0], got[1])
		}
	}
}

// TestKeysBehindCertificates goes on as it was: what a certificate says does not count without --auth
// certificates.
func TestKeysBehindCertificates(t *testing.T) {
	clients, nodes := testca.New(t), testca.New(t)
	f := nodetls.Files{ClientCA: clients.File}
	f.Cert, f.Key = nodes.Issue(nil, "127.0.0.1").Files(t)
	url := "pebble:" + t.TempDir()
	secret := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret
	s := serve(t, server.Config{Store: url, Partitions: 4, Credentials: tlsOf(t, f),
		Extensions: server.Extensions{Auth: server.AuthKeys}})
	dialed := func(opts ...client.Option) error {
		c, err := client.Dial(s.GRPCAddr(), append(opts, client.WithTransportCredentials(credentials.NewTLS(
			clientTLS(nodes, clients.Issue(nil, "shop.example").TLS(t)))))...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.ListJobs(t.Context(), carillon.JobQuery{})
		return err
	}
	if err := dialed(client.WithToken(secret)); err != nil {
		t.Error(err)
	}
	if err := dialed(); !errors.Is(err, carillon.Unauthenticated) {
		t.Errorf("%v", err)
	}
}

// TestTokensAreRenewed: a source is asked for each call, and again if it has none.
func TestTokensAreRenewed(t *testing.T) {
	d, _, _ := openToTokens(t)
	asked := 0
	c, err := client.Dial(d.node.GRPCAddr(), client.WithTokenSource(func(context.Context) (string, error) {
		asked++
		switch asked {
		case 1:
			return "", errors.New("the clerk is out")
		case 2:
			return "not a token", nil
		case 3:
			return d.keys["right"], nil
		}
		return d.keys["expired"], nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// a call is made again when it was unavailable
	if _, err := c.GetNamespace(t.Context(), "a"); err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	if _, err := c.GetNamespace(t.Context(), "a"); !errors.Is(err, carillon.Unauthenticated) || asked != 4 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestAnAuthorityOfNodesNamesNoCallers: at an address where both are let in, a name with a rule is one only by
// the authority of clients. Where one file has both authorities, that is enough.
func TestAnAuthorityOfNodesNamesNoCallers(t *testing.T) {
	clients, nodes := testca.New(t), testca.New(t)
	for _, one := range []struct {
		clientCA string
		want     error
	}{{clients.File, carillon.Unauthenticated}, {nodes.File, nil}} {
		f := nodetls.Files{ClientCA: one.clientCA, Peers: nodetls.Peers{CA: nodes.File}}
		f.Cert, f.Key = nodes.Issue(nil, "127.0.0.1").Files(t)
		s := serve(t, server.Config{Store: "pebble:" + t.TempDir(), Partitions: 4, Credentials: tlsOf(t, f),
			Extensions: server.Extensions{Auth: server.AuthCertificates,
				AuthRules: rulesIn(t, granted("dns: shop.example", "*"))}})
		c, err := client.Dial(s.GRPCAddr(), client.WithTransportCredentials(credentials.NewTLS(
			clientTLS(nodes, nodes.Issue(nil, "shop.example").TLS(t)))))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.ListJobs(t.Context(), carillon.JobQuery{})
		if one.want == nil && err != nil || one.want != nil && !errors.Is(err, one.want) {
			t.Errorf("%s: %v", one.clientCA, err)
		}
		_ = c.Close()
	}
}

// TestAWorkerWhoseTokenWasRenewed tries again; one whose token stays as it was is refused.
func TestAWorkerWhoseTokenWasRenewed(t *testing.T) {
	d, _, _ := openToTokens(t)
	for next, wants := range map[string][2]error{"right": {carillon.Unavailable, nil},
		"expired": {carillon.Unauthenticated, carillon.Unauthenticated}} {
		asked := 0
		c, err := client.Dial(d.node.GRPCAddr(), client.WithTokenSource(func(context.Context) (string, error) {
			if asked++; asked == 1 {
				return d.keys["expired"], nil
			}
			return d.keys[next], nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		for i, want := range wants {
			session, err := c.Connect(t.Context(), carillon.Hello{Namespace: "a", Queues: []string{"q"}, WorkerID: "w"})
			if want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s, %d: %v", next, i, err)
			}
			if err == nil {
				session.Close()
			}
		}
	}
}
