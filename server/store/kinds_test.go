package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestNoTwoKindsShareALetter: a record of one kind would be read as one of the other.
func TestNoTwoKindsShareALetter(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			letter := v.Values[0].(*ast.BasicLit).Value
			if other, ok := of[letter]; ok {
				t.Errorf("%s and %s are both %s", other, v.Names[0].Name, letter)
			}
			of[letter] = v.Names[0].Name
		}
		return true
	})
	if len(of) == 0 {
		t.Fatal("kinds.go declares no kind")
	}
}
