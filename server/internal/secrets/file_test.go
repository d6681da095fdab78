package secrets

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a file of secrets, and a value beside it, and returns the path of the first.
func write(t *testing.T, text, value string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	for name, content := range map[string]string{path: text, filepath.Join(filepath.Dir(path), "value"): value} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

const anywhere = "namespaces: ['*'], hosts: [a.test]"

// TestWhatIsWrongWithAFileIsNamed tells that the field is named, and no value shown.
func TestWhatIsWrongWithAFileIsNamed(t *testing.T) {
	t.Setenv("SECRETS_TEST", "hunter2\nX: 1")
	for text, want := range map[string]string{
		"a: 1":                  "field a not found",
		"secrets: {a: hunter2}": "line 1: cannot unmarshal !!str into",
		"secrets: {a: {basic: {user: a, password: hunter2}}}": "cannot unmarshal !!str into",
		"secrets: 1": "cannot unmarshal",
		"secrets: {a: {file: value, " + anywhere + "}}\n---\nb: 1": "one document",
		"secrets: {'a/b': {file: value, " + anywhere + "}}":        "secrets.a/b.name: ",
		"secrets: {a: }":                                                                                         "secrets.a.file: it is missing",
		"secrets: {a: {" + anywhere + "}}":                                                                       "secrets.a.file: it is missing",
		"secrets: {a: {file: value, hosts: [a.test]}}":                                                           "secrets.a.namespaces: it is missing",
		"secrets: {a: {file: value, namespaces: [a]}}":                                                           "secrets.a.hosts: it is missing",
		"secrets: {a: {file: value, namespaces: [A_], hosts: [b.test]}}":                                         "secrets.a.namespaces[0]: ",
		"secrets: {a: {file: value, namespaces: [a], hosts: ['*']}}":                                             "secrets.a.hosts[0]: ",
		"secrets: {a: {file: value, env: X, " + anywhere + "}}":                                                  "secrets.a.file: give exactly one",
		"secrets: {a: {file: value, extra: 1, " + anywhere + "}}":                                                "field extra not found",
		"secrets: {a: {file: absent, " + anywhere + "}}":                                                         "secrets.a.file: ",
		"secrets: {a: {file: value, " + anywhere + "}}":                                                          "secrets.a.file: it has a line break",
		"secrets: {a: {env: SECRETS_TEST, " + anywhere + "}}":                                                    "secrets.a.env: it has a line break",
		"secrets: {a: {env: SECRETS_TEST_NOT_SET, " + anywhere + "}}":                                            "secrets.a.env: the environment has no",
		"secrets: {a: {basic: {user: 'a:b', password: {file: value}}, " + anywhere + "}}":                        "secrets.a.basic.user: ",
		"secrets: {a: {basic: {user: a}, " + anywhere + "}}":                                                     "secrets.a.basic.password: it is missing",
		"secrets: {a: {basic: {user: a, password: {file: value}}, " + anywhere + "}}":                            "secrets.a.basic.password.file: it has a line break",
		"secrets: {a: {oauth2: {client_id: a, client_secret: {file: value}}, " + anywhere + "}}":                 "secrets.a.oauth2.token_url: it is missing",
		"secrets: {a: {oauth2: {token_url: 'http://b.test/', client_id: a}, " + anywhere + "}}":                  "secrets.a.oauth2.token_url: it begins with http://",
		"secrets: {a: {oauth2: {token_url: 'https://u:hunter2@b.test/', client_id: a}, " + anywhere + "}}":       "secrets.a.oauth2.token_url: it is not",
		"secrets: {a: {oauth2: {token_url: 'https://b.test/'}, " + anywhere + "}}":                               "secrets.a.oauth2.client_id: ",
		"secrets: {a: {oauth2: {token_url: 'https://b.test/', client_id: a}, " + anywhere + "}}":                 "secrets.a.oauth2.client_secret: ",
		"secrets: {a: {oauth2: {token_url: 'https://b.test/', client_id: a, client_auth: x}, " + anywhere + "}}": "secrets.a.oauth2.client_auth: ",
	} {
		_, err := Read(write(t, text, "hunter2\r\nX-Injected: 1\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\n  %v, not %s", text, err, want)
		}
	}
}

func TestAFileIsRead(t *testing.T) {
	text := `secrets:
  a: {file: value, namespaces: [shop, 'team-*'], hosts: [a.test, '*.b.test:8443'], allow_http: true}
  b: {basic: {user: me, password: {file: value}}, namespaces: ['*'], hosts: ['[::1]:80']}
  c: {oauth2: {token_url: 'https://c.test/token', client_id: me, client_secret: {file: value}, scopes: [x, y],
      audience: z, client_auth: body}, namespaces: ['*'], hosts: [c.test]}
`
	one, err := Read(write(t, text, "pä ss\n"))
	if err == nil || !strings.Contains(err.Error(), "secrets.a.file: ") || strings.Contains(err.Error(), "secrets.b") {
		t.Fatalf("what is not ASCII: %v, %v", one, err)
	}
	one, err = Read(write(t, text, "first\n"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Read(write(t, text, "second"))
	if err != nil {
		t.Fatal(err)
	}
	if one["a"].value != "first" || one["b"].value != "Basic bWU6Zmlyc3Q=" || one["c"].tokens.ClientSecret != "first" ||
		one["c"].tokens.EndpointParams.Get("audience") != "z" {
		t.Errorf("%+v", one)
	}
	for name := range one {
		if one[name].Print == two[name].Print {
			t.Errorf("%s: another value is the same secret", name)
		}
	}
}

func TestHosts(t *testing.T) {
	for text, at := range map[string]map[string]bool{
		"a.test": {"https://a.test/": true, "https://A.TEST./": true, "https://a.test:443": true, "http://a.test": true,
			"https://a.test:8443": false, "https://b.a.test": false, "https://a.test.evil": false, "https://xa.test": false},
		"a.test:8443": {"https://a.test:8443": true, "https://a.test": false},
		"*.a.test":    {"https://b.a.test": true, "https://c.b.a.test": true, "https://a.test": false, "https://xa.test": false},
		"127.0.0.1":   {"http://127.0.0.1": true, "http://[::ffff:127.0.0.1]": true, "http://127.0.0.2": false},
		"[::1]:80":    {"http://[::1]": true, "http://[0:0::1]:80": true, "https://[::1]": false},
		"::1":         {"http://[::1]": true},
		// Package strings maps İ to i and the sign of Kelvin to k; net/http connects to xn--….
		"api.strike.test": {"https://API.STRIKE.TEST/": true, "https://api.str\u0130ke.test/x": false,
			"https://api.str%C4%B0ke.test/x": false, "https://api.stri\u212Ae.test": false,
			"https://api.stri%E2%84%AAe.test": false},
		"*.strike.test": {"https://\u00e4.strike.test": false, "https://a.str\u0130ke.test": false},
	} {
		h, err := parseHost(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for raw, want := range at {
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			if h.allows(u) != want {
				t.Errorf("%s allows %s: %v", text, raw, !want)
			}
		}
	}
	for _, text := range []string{"", "*", "*:80", "*a.test", "a..test", "https://a.test", "a.test/x", "a@b.test", "a.test:0",
		"a.test:http", "ä.test", "\u212A.test", ".a.test", "*.", "a b"} {
		if h, err := parseHost(text); err == nil {
			t.Errorf("%q is taken for a host: %+v", text, h)
		}
	}
}
