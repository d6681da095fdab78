package house

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/telemetry"
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
