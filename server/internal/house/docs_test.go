package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// link is a Markdown link; its target is the first group.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestNoDeadLinks(t *testing.T) {
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
	})
}

func TestEveryMetricIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range telemetry.Table() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", m.Name, m.Type, labels, m.Help)
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md lacks the row\n%s", row)
		}
	}
}

var (
	testName = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*\b`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
)

// TestNamedCasesExist holds docs/upstream.md and SECURITY.md against the tests that they name.
func TestNamedCasesExist(t *testing.T) {
	there := map[string]bool{}
	walk(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
	})
	for page, least := range map[string]int{"docs/upstream.md": 50, "SECURITY.md": 20} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				continue
			}
			for _, name := range testName.FindAllString(strings.Join(cells[2:], "|"), -1) {
				if named++; !there[name] {
					t.Errorf("%s names %s, which is no test", page, name)
				}
			}
		}
		if named < least {
			t.Errorf("%s: only %d tests are named: the table was not understood", page, named)
		}
	}
}
