package rulesfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

var all = Use{Tokens: true, Certificates: true}

// written is a file with a text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRules(t *testing.T) {
	got, err := Read(written(t, `
rules:
  - claim: groups
    value: ops
    grants:
      - {role: operator, namespaces: ["*"]}
      - {role: worker, namespaces: [shop], queues: [mails]}
  - claim: [realm_access, roles]
    value: shop
    grants: [{role: producer, namespaces: [shop-*]}]
  - {spiffe: spiffe://example.org/ns/shop/*, grants: [{role: viewer, namespaces: [shop]}]}
  - {dns: shop.example.com, grants: [{role: viewer, namespaces: [shop]}]}
  - {cn: "The shop", grants: [{role: viewer, namespaces: [shop]}]}
`), all)
	if err != nil {
		t.Fatal(err)
	}
	viewer := []carillon.AccessGrant{{Role: "viewer", Namespaces: []string{"shop"}}}
	if want := []access.Rule{
		{Claim: []string{"groups"}, Value: "ops", Grants: []carillon.AccessGrant{
			{Role: "operator", Namespaces: []string{"*"}},
			{Role: "worker", Namespaces: []string{"shop"}, Queues: []string{"mails"}}}},
		{Claim: []string{"realm_access", "roles"}, Value: "shop",
			Grants: []carillon.AccessGrant{{Role: "producer", Namespaces: []string{"shop-*"}}}},
		{SPIFFE: "spiffe://example.org/ns/shop/*", Grants: viewer},
		{DNS: "shop.example.com", Grants: viewer}, {CN: "The shop", Grants: viewer},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if none, err := Read(written(t, "rules: []"), all); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

// TestWrongRulesAreNamed by their path.
func TestWrongRulesAreNamed(t *testing.T) {
	const ok = ", grants: [{role: viewer, namespaces: [shop]}]}"
	one := func(rule string) string { return "rules: [" + rule + "]" }
	for text, want := range map[string]string{
		"":                                                 "rules: it is missing",
		"rules:":                                           "rules: it is missing",
		"roles: []":                                        "field roles not found",
		"rules: []\n---\nrules: []":                        "one document",
		"rules: {":                                         "line 1",
		"rules: [{claim: a, value: b}]":                    "rules[0].grants: what is granted",
		one("{" + ok[2:]):                                  "rules[0].claim: about whom",
		one("{claims: a" + ok):                             "field claims not found",
		one("{claim: a, cn: b" + ok):                       "rules[0].claim: a rule has one of",
		one("{claim: a" + ok):                              "rules[0].value: what must",
		one("{claim: a, value: ''" + ok):                   "rules[0].value: what must",
		one("{claim: {a: b}, value: b" + ok):               "rules[0].claim: it is a name",
		one("{claim: [], value: b" + ok):                   "rules[0].claim: it is a name",
		one("{claim: [a, [b]], value: b" + ok):             "rules[0].claim: a name in it",
		one("{cn: a, value: b" + ok):                       "rules[0].value: only a rule about a claim",
		one("{spiffe: 'spiffe://x*'" + ok):                 "rules[0].spiffe: ",
		one("{spiffe: 'spiffe://x/a*'" + ok):               "rules[0].spiffe: ",
		one("{spiffe: 'spiffe://x/*/b'" + ok):              "rules[0].spiffe: ",
		one("{spiffe: 'spiffe://*'" + ok):                  "rules[0].spiffe: ",
		one("{spiffe: shop" + ok):                          "rules[0].spiffe: ",
		one("{dns: '*.example.com'" + ok):                  "rules[0].dns: ",
		one("{dns: a..b" + ok):                             "rules[0].dns: ",
		one("{cn: " + strings.Repeat("a", maxText+1) + ok): "rules[0].cn: ",
		one("{cn: a" + ok + ", {cn: b, grants: [{role: r, namespaces: [a]}]}"):                   "rules[1].grants[0].role: ",
		one("{cn: a, grants: [{role: viewer}]}"):                                                 "rules[0].grants[0].namespaces: ",
		one("{cn: a, grants: [{role: viewer, namespaces: ['a*b']}]}"):                            "rules[0].grants[0].namespaces[0]: ",
		one("{cn: a, grants: [{role: viewer, namespaces: [a], queues: [q]}]}"):                   "rules[0].grants[0].queues: ",
		"rules:\n" + strings.Repeat("- {cn: a"+ok+"\n", MaxRules+1):                              "rules: there are 1001",
		"rules: []\n" + strings.Repeat("#", yamlfile.MaxBytes):                                   "larger than",
		one("{cn: a, grants: [" + strings.Repeat("{role: admin, namespaces: [a]}, ", 17) + "]}"): "rules[0].grants: 17 grants",
	} {
		if _, err := Read(written(t, text), all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for rule, use := range map[string]Use{"claim": {Certificates: true}, "spiffe": {Tokens: true},
		"dns": {Tokens: true}, "cn": {Certificates: true, IDsOnly: true}} {
		text := map[string]string{"claim": "claim: a, value: b", "spiffe": "spiffe: 'spiffe://a/b'"}[rule]
		if text == "" {
			text = rule + ": a"
		}
		if _, err := Read(written(t, one("{"+text+ok)), use); err == nil || !strings.Contains(err.Error(), "rules[0]."+rule+": ") {
			t.Errorf("%s without effect: %v", rule, err)
		}
	}
}

// TestChanges come in force once two looks have seen them; what is wrong does not, and is logged once.
func TestChanges(t *testing.T) {
	const rule = "- {cn: a, grants: [{role: viewer, namespaces: [shop]}]}\n"
	path := written(t, "rules:\n"+rule)
	var rules access.Rulebook
	var log bytes.Buffer
	f, err := Open(path, all, &rules, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || rules.Len() != 1 {
		t.Fatal(err)
	}
	looks := func(text string, want ...int) {
		t.Helper()
		if text != "" {
			write(t, path, text)
		}
		for i, n := range want {
			if f.look(); rules.Len() != n {
				t.Errorf("look %d: %d rules, want %d", i, rules.Len(), n)
			}
		}
	}
	looks("rules:\n"+rule+rule, 1, 2, 2)
	logged := log.Len()
	looks("# the same\nrules:\n"+rule+rule, 2, 2)
	if log.Len() != logged {
		t.Errorf("rules that are equal are put in force: %s", &log)
	}
	looks("rules:\n"+rule+"- {cn", 2, 2, 2)
	if n := strings.Count(log.String(), "stay as they were"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	looks("rules:\n"+rule+rule, 2, 2)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	looks("", 2, 2)
	if n := strings.Count(log.String(), "stay as they were"); n != 2 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	looks("rules: []", 2, 0)
}
