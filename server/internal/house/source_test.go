package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module is the path of the user's module, root its folder as seen from here, and second the folder of the
// server's module inside of it, whose path is module/second.
const (
	module = "github.com/carillonhq/carillon"
	second = "server"
	root   = "../../.."
)

// source is one Go file of the module.
type source struct {
	path string // from the root, with slashes
	file *ast.File
	fset *token.FileSet
}

// pkg is the folder of the package, "." for the root.
func (s source) pkg() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// imports are the paths that the file imports.
func (s source) imports() []string {
	paths := make([]string, 0, len(s.file.Imports))
	for _, i := range s.file.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}

// sources parses every Go file of the module, whatever its build tags.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{path: path, file: file, fset: fset})
	})
	if len(all) == 0 {
		t.Fatal("no Go file found: this test looks in the wrong place")
	}
	return all
}

// walk calls f for every file of the module; folders that hold another module, data or nothing of ours are
// left out.
func walk(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(path, rel, d.Name())
		}
		f(filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// enter is fs.SkipDir for a folder that is not part of the module.
func enter(path, rel, name string) error {
	if rel == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "carillon-data" || name == "bin" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && rel != second {
		return fs.SkipDir
	}
	return nil
}

// within reports whether path is prefix or lies below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
