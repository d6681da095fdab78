package house

import (
	"go/ast"
	"slices"
	"testing"
)

// Budgets in lines.
const (
	fileLines     = 500
	testFileLines = 800
	funcLines     = 80
	funcLinesP90  = 35
)

func TestFilesAndFunctionsAreShort(t *testing.T) {
	var lengths []int
	for _, s := range sources(t) {
		if ast.IsGenerated(s.file) {
			continue
		}
		most := fileLines
		if s.test() {
			most = testFileLines
		}
		if n := s.line(s.file.End()); n > most {
			t.Errorf("%s has %d lines, more than %d", s.path, n, most)
		}
		if !s.test() {
			lengths = append(lengths, functionLengths(t, s)...)
		}
	}
	if len(lengths) == 0 {
		t.Fatal("no function found")
	}
	slices.Sort(lengths)
	if p90 := lengths[len(lengths)*9/10]; p90 > funcLinesP90 {
		t.Errorf("a tenth of the functions are longer than %d lines, the budget is %d", p90, funcLinesP90)
	}
}

// functionLengths is the length of each function of the file; one over the budget fails the test.
func functionLengths(t *testing.T, s source) []int {
	t.Helper()
	var lengths []int
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.line(f.End()) - s.line(f.Pos()) + 1
		if n > funcLines {
			t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, s.line(f.Pos()), f.Name.Name, n, funcLines)
		}
		lengths = append(lengths, n)
	}
	return lengths
}

func TestEveryPackageIsDocumented(t *testing.T) {
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		if !s.test() {
			documented[s.pkg()] = documented[s.pkg()] || s.file.Doc != nil
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}
