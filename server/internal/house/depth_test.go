package house

import (
	"slices"
	"strings"
	"testing"
)

// importDepth is how many packages a chain of imports may have: from a command, which wires the parts, down
// to package schedule. What a chain is made of stands in docs/layers.txt, a floor each.
const importDepth = 8

// TestImportDepth: harnesses and examples do not count.
func TestImportDepth(t *testing.T) {
	if chain := longest(productImports(t)); len(chain) > importDepth {
		t.Errorf("a chain of imports has %d packages, at most %d may be: move what an edge is there for to a lower package, "+
			"or let the upper one declare the interface that it needs\n%s", len(chain), importDepth,
			strings.Join(chain, "\n  imports "))
	}
}

// TestFloorsAreTight: a package of the product stands right above the highest one that it imports.
func TestFloorsAreTight(t *testing.T) {
	layers, below := readLayers(t), productImports(t)
	for pkg, imports := range below {
		highest := 0
		for _, i := range imports {
			highest = max(highest, layers[i].floor)
		}
		if layers[pkg].floor != highest+1 {
			t.Errorf("%s is on floor %d of docs/layers.txt, and imports nothing above floor %d", pkg,
				layers[pkg].floor, highest)
		}
	}
}

func TestLongest(t *testing.T) {
	below := map[string][]string{"a": {"d", "b"}, "b": {"c"}, "c": nil, "d": nil, "e": {"b"}}
	if got := longest(below); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}

// longest returns the longest chain of imports, from the importing package down; of several, the first by
// name.
func longest(below map[string][]string) (chain []string) {
	known := map[string][]string{}
	var from func(pkg string) []string
	from = func(pkg string) []string {
		if chain, ok := known[pkg]; ok {
			return chain
		}
		var most []string
		for _, i := range below[pkg] {
			if c := from(i); len(c) > len(most) {
				most = c
			}
		}
		known[pkg] = append([]string{pkg}, most...)
		return known[pkg]
	}
	for pkg := range below {
		c := from(pkg)
		if len(c) > len(chain) || len(c) == len(chain) && slices.Compare(c, chain) < 0 {
			chain = c
		}
	}
	return chain
}

// productImports returns the packages of the product with those of them that each imports, by name.
func productImports(t *testing.T) map[string][]string {
	t.Helper()
	counts := func(pkg string) bool { return within(pkg, "api") || !isHarness(pkg) }
	below := map[string][]string{}
	for _, s := range sources(t) {
		if s.test() || !counts(s.pkg()) {
			continue
		}
		imports := below[s.pkg()]
		for _, path := range s.imports() {
			if !within(path, module) {
				continue
			}
			pkg := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			if pkg == "" {
				pkg = "."
			}
			if counts(pkg) && !slices.Contains(imports, pkg) {
				imports = append(imports, pkg)
			}
		}
		slices.Sort(imports)
		below[s.pkg()] = imports
	}
	return below
}
