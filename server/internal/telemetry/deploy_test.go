package telemetry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The files in deploy/ are held against what a node shows.

const (
	rulesFile     = "prometheus/carillon.rules.yml"
	rulesTests    = "prometheus/carillon.test.yml"
	dashboardFile = "grafana/carillon.json"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var metricName = regexp.MustCompile(`\b(?:carillon|process|go)_[a-z0-9_]+`)

// shownNames are the names of all series that the registry shows, with those of histograms' parts.
func shownNames() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(read(busy(1))) {
		if name := metricName.FindString(line); name != "" && !strings.HasPrefix(line, "#") {
			names[name] = true
		}
	}
	return names
}

func TestRulesAndPanelsNameWhatIsShown(t *testing.T) {
	shown := shownNames()
	for _, file := range []string{rulesFile, rulesTests, dashboardFile} {
		named := metricName.FindAllString(deployed(t, file), -1)
		if len(named) < 15 {
			t.Errorf("%s: only %d names are found", file, len(named))
		}
		for _, name := range named {
			if !shown[name] {
				t.Errorf("%s names %s, which no node shows", file, name)
			}
		}
	}
}

// TestEachAlertIsTestedAndDocumented: a rule has a test of promtool's and a row in docs/operations.md, and
// there are no others.
func TestEachAlertIsTestedAndDocumented(t *testing.T) {
	find := func(text, pattern string) (names []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	docs, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := find(deployed(t, rulesFile), `(?m)^ +- alert: (\w+)$`)
	if len(rules) == 0 {
		t.Fatal("no rules are found")
	}
	if tests := find(deployed(t, rulesTests), `(?m)^  - name: (\w+)$`); !slices.Equal(tests, rules) {
		t.Errorf("tests %q, rules %q", tests, rules)
	}
	if rows := find(string(docs), "(?m)^\\| `(Carillon\\w+)` \\|"); !slices.Equal(rows, rules) {
		t.Errorf("documented %q, rules %q", rows, rules)
	}
}

// dashboard is what an import into Grafana needs.
type dashboard struct {
	ID            *int   `json:"id"`
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID          int `json:"id"`
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ RefID, Expr string }
}

func TestTheDashboardCanBeImported(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(deployed(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if d.ID != nil || d.UID == "" || d.Title == "" || d.SchemaVersion == 0 {
		t.Errorf("an import needs a uid, a title, a schema version and no id: %v %q %q %d", d.ID, d.UID, d.Title,
			d.SchemaVersion)
	}
	if v := d.Templating.List; len(v) == 0 || v[0].Name != "datasource" || v[0].Type != "datasource" {
		t.Errorf("the first variable is not the data source: %v", v)
	}
	ids, at, rows := map[int]bool{}, map[[2]int]string{}, []string(nil)
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: the id %d is missing or there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else {
			p.check(t)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := at[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies upon %s", p.Title, other)
				}
				at[[2]int{x, y}] = p.Title
			}
		}
	}
	if want := []string{"Overview", "Queues", "Cluster", "Store"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
}

// check looks at a panel that shows something.
func (p *panel) check(t *testing.T) {
	t.Helper()
	if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
		t.Errorf("panel %d %q lacks a title, a unit or a query", p.ID, p.Title)
	}
	if p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" {
		t.Errorf("%s: reads from %v", p.Title, p.Datasource)
	}
	if g := p.GridPos; g.W <= 0 || g.H <= 0 || g.X < 0 || g.X+g.W > 24 {
		t.Errorf("%s: lies at %+v of 24 columns", p.Title, g)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" || strings.Count(q.Expr, "(") != strings.Count(q.Expr, ")") {
			t.Errorf("%s: query %q %q", p.Title, q.RefID, q.Expr)
		}
		refs[q.RefID] = true
		if !strings.Contains(q.Expr, `job=~"$job"`) {
			t.Errorf("%s: %s does not tell clusters apart", p.Title, q.Expr)
		}
	}
}
