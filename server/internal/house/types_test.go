package house

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Budgets of types in the product. What is over one is in a list below with its number, which may only go
// down: whoever makes it smaller writes the new number there, so that it cannot grow back.
const (
	typeMethods  = 60
	typeFields   = 25
	stateFields  = 26 // of the record of a job, whose fields are those of record.proto
	seamMethods  = 8
	nodesMethods = 12 // of seams between nodes
)

// betweenNodes are the seams that one node has to another.
var betweenNodes = map[string]bool{"server/internal/message.Partitions": true,
	"server/internal/cluster.Peer": true}

// harnesses are packages that only tests and measurements use.
var harnesses = []string{"server/internal/testing", "server/internal/house", "server/store/storetest", "api",
	"server/examples", "tools"}

func isHarness(pkg string) bool {
	return slices.ContainsFunc(harnesses, func(h string) bool { return within(pkg, h) })
}

// TestTypesAreSmall: a type with many methods or fields, and an interface that asks for much, are several
// things in one.
func TestTypesAreSmall(t *testing.T) {
	sizes := typeSizes(t)
	if len(sizes) == 0 {
		t.Fatal("no type found")
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		budget := typeMethods
		switch {
		case name == "server/store.State fields":
			budget = stateFields
		case strings.HasSuffix(name, " fields"):
			budget = typeFields
		case betweenNodes[strings.TrimSuffix(name, " seam")]:
			budget = nodesMethods
		case strings.HasSuffix(name, " seam"):
			budget = seamMethods
		}
		if n := sizes[name]; n > budget {
			t.Errorf("%s: %d, more than %d", name, n, budget)
		}
	}
}

// typeSizes is how many methods and fields each type of the product has, and how many methods each interface
// asks for.
func typeSizes(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for _, s := range sources(t) {
		if s.test() || ast.IsGenerated(s.file) || isHarness(s.pkg()) {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if r := receiver(d); r != "" {
					sizes[s.pkg()+"."+r+" methods"]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok {
						addType(sizes, s.pkg()+"."+ts.Name.Name, ts.Type)
					}
				}
			}
		}
	}
	return sizes
}

// addType counts the fields of a struct, and the methods of an interface but for those that it embeds.
func addType(sizes map[string]int, name string, expr ast.Expr) {
	switch x := expr.(type) {
	case *ast.StructType:
		for _, f := range x.Fields.List {
			sizes[name+" fields"] += max(1, len(f.Names))
		}
	case *ast.InterfaceType:
		for _, m := range x.Methods.List {
			sizes[name+" seam"] += len(m.Names)
		}
	}
}

// receiver is the name of the type that a method is of; "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	x := f.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return fmt.Sprint(y)
		}
	}
}

// TestNoTwoMethodsDifferInCase: release and Release of one type are told apart by nobody who hears them.
func TestNoTwoMethodsDifferInCase(t *testing.T) {
	methods := map[string]string{}
	for _, s := range sources(t) {
		if s.test() || ast.IsGenerated(s.file) || isHarness(s.pkg()) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			key := s.pkg() + "." + receiver(f) + "." + strings.ToLower(f.Name.Name)
			if other, ok := methods[key]; ok && other != f.Name.Name {
				t.Errorf("%s.%s has both %s and %s", s.pkg(), receiver(f), other, f.Name.Name)
			}
			methods[key] = f.Name.Name
		}
	}
	if len(methods) == 0 {
		t.Fatal("no method found")
	}
}
