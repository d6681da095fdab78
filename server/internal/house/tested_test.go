package house

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// tested are the packages in which each file that decides something has its tests in a file of its name. A
// file such as build_runs.go, beside build.go, is a part of it: its tests may be there. Where the value is
// not empty, it is a package of tests whose files count as well.
var tested = map[string]string{
	"internal/multisession":     "server/internal/testing/multisessiontest",
	"server/internal/cluster":   "",
	"server/internal/delivery":  "",
	"server/internal/dispatch":  "",
	"server/internal/engine":    "",
	"server/internal/partition": "",
	"server/internal/permit":    "",
	"server/store":              "",
	"server/store/pebble":       "",
}

// conformance is the reason for files that only carry out what the interfaces of package store promise.
const conformance = "storetest asks all of it, in suite_test.go"

// testedElsewhere are the exceptions, with their reasons. The list only gets shorter.
var testedElsewhere = map[string]string{
	"server/store/pebble/count.go":  conformance,
	"server/store/pebble/leaser.go": conformance,
	"server/store/pebble/runs.go":   conformance,
	"server/store/pebble/shard.go":  conformance,
	"server/store/pebble/view.go":   conformance,
}

func TestEachFileOfTheCoreHasItsTests(t *testing.T) {
	all := sources(t)
	there := map[string]bool{}
	for _, s := range all {
		there[s.path] = true
	}
	needed := map[string]bool{}
	for _, s := range all {
		suite, is := tested[s.pkg()]
		if !is || s.test() || ast.IsGenerated(s.file) || !decides(s.file) || hasTests(there, s.path, suite) {
			continue
		}
		if needed[s.path] = true; testedElsewhere[s.path] == "" {
			t.Errorf("%s has no %s", s.path, testsOf(s.path))
		}
	}
	for file := range testedElsewhere {
		if !needed[file] {
			t.Errorf("%s needs no exception", file)
		}
	}
}

func testsOf(file string) string { return strings.TrimSuffix(file, ".go") + "_test.go" }

// hasTests reports whether there is a file for the tests of a file.
func hasTests(there map[string]bool, file, suite string) bool {
	if there[testsOf(file)] || suite != "" && there[path.Join(suite, path.Base(testsOf(file)))] {
		return true
	}
	if i := strings.LastIndexByte(path.Base(file), '_'); i > 0 {
		whole := path.Join(path.Dir(file), path.Base(file)[:i]+".go")
		return there[whole] && there[testsOf(whole)]
	}
	return false
}

// decides reports whether code of the file branches or repeats.
func decides(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			found = true
		case *ast.BinaryExpr:
			found = found || n.Op == token.LAND || n.Op == token.LOR
		}
		return !found
	})
	return found
}

// testNameLength is the most characters of the name of a test.
const testNameLength = 45

func TestNamesOfTestsAreShortSentences(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && len(f.Name.Name) > testNameLength {
				t.Errorf("%s: %s has %d characters, more than %d", s.path, f.Name.Name, len(f.Name.Name), testNameLength)
			}
		}
	}
}
