package house

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// core are the packages that use the standard library only.
var core = map[string]bool{"schedule": true, ".": true, "internal/plan": true, "internal/wire": true,
	"internal/reconnect": true, "internal/multisession": true, "api/carillon/v1": true, "server/store": true,
	"server/store/codec": true, "server/internal/delivery": true, "server/internal/message": true,
	"server/internal/permit": true, "server/internal/partition": true}

// mayUseProtobuf are the packages of the core that translate to protobuf and gRPC.
var mayUseProtobuf = map[string]bool{"api/carillon/v1": true, "internal/wire": true}

// layer is one line of docs/layers.txt.
type layer struct {
	floor   int
	outside []string // prefixes of import paths
}

// allows reports whether an import from outside the module and the standard library is on the line.
func (l layer) allows(path string) bool {
	for _, prefix := range l.outside {
		if within(path, prefix) {
			return true
		}
	}
	return false
}

func TestImportsGoDown(t *testing.T) {
	layers := readLayers(t)
	for _, s := range sources(t) {
		from, ok := layers[s.pkg()]
		if !ok {
			t.Errorf("%s: package %s has no line in docs/layers.txt", s.path, s.pkg())
			continue
		}
		if s.test() {
			continue
		}
		for _, path := range s.imports() {
			if complaint := judge(layers, from, path); complaint != "" {
				t.Errorf("%s (floor %d): %s", s.path, from.floor, complaint)
			}
		}
	}
}

// judge says what is wrong with an import from a package of the layer; "" is nothing.
func judge(layers map[string]layer, from layer, path string) string {
	switch {
	case within(path, module):
		pkg := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if pkg == "" {
			pkg = "."
		}
		to, ok := layers[pkg]
		if !ok {
			return "imports " + pkg + ", which has no line in docs/layers.txt"
		}
		if to.floor >= from.floor {
			return "imports " + pkg + " of floor " + strconv.Itoa(to.floor)
		}
	case standard(path):
	case !from.allows(path):
		return "imports " + path + ", which its line in docs/layers.txt does not name"
	}
	return ""
}

// standard reports whether path is of the standard library: its first element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestEveryLayerExists(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		seen[s.pkg()] = true
	}
	for pkg := range readLayers(t) {
		if !seen[pkg] {
			t.Errorf("docs/layers.txt names %s, which does not exist", pkg)
		}
	}
}

func TestTheCoreUsesTheStandardLibraryOnly(t *testing.T) {
	for pkg, l := range readLayers(t) {
		if core[pkg] && len(l.outside) > 0 && !mayUseProtobuf[pkg] {
			t.Errorf("%s may use the standard library only", pkg)
		}
	}
}

func TestJudge(t *testing.T) {
	layers := map[string]layer{".": {floor: 2}, "schedule": {floor: 1},
		"server/store/pebble": {4, []string{"github.com/cockroachdb/pebble/v2"}}}
	for _, c := range []struct {
		from, path string
		good       bool
	}{
		{".", module + "/schedule", true},
		{"schedule", module, false},
		{".", module + "/nowhere", false},
		{".", "encoding/json", true},
		{".", "github.com/cockroachdb/pebble/v2", false},
		{"server/store/pebble", "github.com/cockroachdb/pebble/v2/vfs", true},
		{"server/store/pebble", "github.com/cockroachdb/pebble/v2x", false},
	} {
		if complaint := judge(layers, layers[c.from], c.path); (complaint == "") != c.good {
			t.Errorf("%s imports %s: complaint %q", c.from, c.path, complaint)
		}
	}
}

// readLayers reads docs/layers.txt.
func readLayers(t *testing.T) map[string]layer {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "layers.txt"))
	if err != nil {
		t.Fatal(err)
	}
	layers := make(map[string]layer)
	for i, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		floor, err := strconv.Atoi(words[0])
		if err != nil || len(words) < 2 {
			t.Fatalf("docs/layers.txt:%d: want a floor and a package, got %q", i+1, line)
		}
		if _, twice := layers[words[1]]; twice {
			t.Fatalf("docs/layers.txt:%d: %s is there twice", i+1, words[1])
		}
		layers[words[1]] = layer{floor: floor, outside: words[2:]}
	}
	return layers
}
