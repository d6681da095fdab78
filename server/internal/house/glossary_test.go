package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// glossaryType is the last column of a row: a type in its package.
var glossaryType = regexp.MustCompile("(?m)^\\| .* \\| `([a-z/]+)\\.([A-Za-z]+)` \\|$")

// TestGlossaryNamesTypes: each word of the glossary leads to a type that is there.
func TestGlossaryNamesTypes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || s.test() {
				continue
			}
			for _, spec := range g.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok {
					declared[strings.Replace(s.pkg(), ".", "carillon", 1)+"."+ts.Name.Name] = true
				}
			}
		}
	}
	rows := glossaryType.FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("docs/glossary.md has no row")
	}
	for _, row := range rows {
		if !declared[row[1]+"."+row[2]] {
			t.Errorf("docs/glossary.md: there is no type %s in %s", row[2], row[1])
		}
	}
}

// citedFile is a Go file, or a page, that a comment names.
var citedFile = regexp.MustCompile(`\b[a-z][a-z0-9_/-]*\.(?:go|md)\b`)

// TestCommentsNameFilesThatExist: of this repository, by name or by path.
func TestCommentsNameFilesThatExist(t *testing.T) {
	there := map[string]bool{}
	all := sources(t)
	for _, s := range all {
		there[filepath.Base(s.path)] = true
	}
	walk(t, func(path string) {
		if strings.HasSuffix(path, ".md") {
			there[path] = true
		}
	})
	for _, s := range all {
		if ast.IsGenerated(s.file) {
			continue
		}
		for _, group := range s.file.Comments {
			for _, name := range citedFile.FindAllString(group.Text(), -1) {
				if strings.HasSuffix(name, ".go") {
					name = filepath.Base(name)
				}
				if !there[name] {
					t.Errorf("%s:%d names %s, which is not there", s.path, s.line(group.Pos()), name)
				}
			}
		}
	}
}
