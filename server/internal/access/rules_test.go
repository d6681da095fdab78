package access

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestClaims: which values of a claim a rule fits.
func TestClaims(t *testing.T) {
	const claims = `{"text": "a b", "list": ["a", 1, ["c"]], "yes": true, "number": 1, "none": null,
		"scope": "read write", "in": {"side": ["a"], "scope": "read write"}}`
	var token Token
	if err := json.Unmarshal([]byte(claims), &token.Claims); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim []string
		value string
		want  bool
	}{
		{[]string{"text"}, "a b", true}, {[]string{"text"}, "a", false}, {[]string{"text"}, "A B", false},
		{[]string{"list"}, "a", true}, {[]string{"list"}, "1", false}, {[]string{"list"}, "c", false},
		{[]string{"yes"}, "true", true}, {[]string{"yes"}, "false", false}, {[]string{"yes"}, "x", false},
		{[]string{"number"}, "1", false}, {[]string{"none"}, "", false}, {[]string{"missing"}, "", false},
		{[]string{"scope"}, "read", true}, {[]string{"scope"}, "read write", true}, {[]string{"scope"}, "rea", false},
		{[]string{"in", "side"}, "a", true}, {[]string{"in"}, "side", false}, {[]string{"text", "x"}, "a", false},
		{[]string{"in", "scope"}, "read", false}, {[]string{"in.side"}, "a", false},
	} {
		if token.has(c.claim, c.value) != c.want {
			t.Errorf("%q, %q: %v", c.claim, c.value, !c.want)
		}
	}
}

// TestAllRulesThatFitCount, and without rules nobody is anybody.
func TestAllRulesThatFitCount(t *testing.T) {
	grant := func(role carillon.Role) []carillon.AccessGrant {
		return []carillon.AccessGrant{{Role: role, Namespaces: []string{"a"}}}
	}
	token := &Token{Issuer: "https://i", Subject: "s", Claims: map[string]any{"sub": "s", "x": "y"}}
	cert := &Certificate{SPIFFE: "spiffe://t/a", CN: "c"}
	var none *Rulebook
	if p := none.ofToken(token); len(p.Grants) != 0 || p.ID != "https://i s" {
		t.Errorf("%+v", p)
	}
	if p := none.ofCertificate(cert); p != nil {
		t.Errorf("%+v", p)
	}
	var book Rulebook
	book.Replace([]Rule{{Claim: []string{"x"}, Value: "y", Grants: grant("viewer")}, {CN: "c", Grants: grant("worker")},
		{Claim: []string{"sub"}, Value: "s", Grants: grant("admin")}, {SPIFFE: "spiffe://t/*", Grants: grant("admin")},
		{DNS: "c", Grants: grant("producer")}})
	p, q := book.ofToken(token), book.ofCertificate(cert)
	if len(p.Grants) != 2 || len(q.Grants) != 2 || q.String() != "certificate spiffe://t/a" {
		t.Errorf("%+v, %+v", p, q)
	}
	if p := book.ofCertificate(&Certificate{SPIFFE: "spiffe://t/"}); p != nil {
		t.Errorf("%+v", p)
	}
}

// TestCertificatesAreCalledByTheirOwnNames: not by that of the rule that fits first.
func TestCertificatesAreCalledByTheirOwnNames(t *testing.T) {
	var book Rulebook
	book.Replace([]Rule{{DNS: "shared.example"}, {CN: "c"}, {SPIFFE: "spiffe://t/*"}})
	for want, c := range map[string]*Certificate{
		"spiffe://t/a":               {SPIFFE: "spiffe://t/a", DNS: []string{"shared.example"}, CN: "c", Subject: "CN=c,O=x"},
		"CN=c,O=x":                   {DNS: []string{"shared.example"}, CN: "c", Subject: "CN=c,O=x"},
		"CN=d,O=x":                   {DNS: []string{"shared.example"}, CN: "d", Subject: "CN=d,O=x"},
		"a.example":                  {DNS: []string{"a.example", "SHARED.example"}},
		"CN=c\uFFFDd":                {DNS: []string{"shared.example"}, Subject: "CN=c\nd"},
		strings.Repeat("é", maxID/2): {DNS: []string{"shared.example"}, Subject: strings.Repeat("é", maxID)},
	} {
		if p := book.ofCertificate(c); p == nil || p.ID != want {
			t.Errorf("%+v, want %q", p, want)
		}
	}
}

// TestNamesOfCertificatesInErrors: quoted, since whoever has it signed chooses them, and not without end.
func TestNamesOfCertificatesInErrors(t *testing.T) {
	for want, c := range map[string]Certificate{
		"no name":                               {},
		`"spiffe://t/a", "b", "CN=x\ny"`:        {SPIFFE: "spiffe://t/a", DNS: []string{"b"}, CN: "x\ny"},
		`"CN=` + strings.Repeat("é", 197) + `"`: {CN: strings.Repeat("é", 300)},
		`"a", "b", "c", "d", "e" and 1 more`:    {DNS: []string{"a", "b", "c", "d", "e"}, CN: "f"},
		"not signed by an authority of clients": {CN: "f", Foreign: true},
	} {
		if got := c.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
