package house

import (
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// Budgets of the root package, which users of the Go API read whole. Only what a new call of the API takes and
// returns raises them.
const (
	rootFiles = 29
	rootNames = 172 // exported types, functions and variables
)

// TestTheRootPackageIsSmall: what only internals use belongs below internal/.
func TestTheRootPackageIsSmall(t *testing.T) {
	files, names := 0, []string(nil)
	for _, s := range sources(t) {
		if s.pkg() != "." || s.test() {
			continue
		}
		files++
		for _, d := range s.file.Decls {
			names = append(names, exported(d)...)
		}
	}
	if files != rootFiles || len(names) != rootNames {
		slices.Sort(names)
		t.Errorf("%d files and %d names; write lower numbers down, and move what makes them higher: %v", files,
			len(names), names)
	}
}

// exported returns the exported names of a declaration but for methods and constants.
func exported(d ast.Decl) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				if d.Tok == token.VAR {
					for _, id := range spec.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}
