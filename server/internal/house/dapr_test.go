package house

import (
	"slices"
	"strings"
	"testing"
)

// apart are packages that programs of others link, and those that these need. The generated packages of
// Dapr's protocol register under Dapr's names, so that a program which also links Dapr's own would not start.
var apart = []string{".", "client", "worker", "server/embedded", "server/store", "server/store/pebble",
	"server/store/postgres", "server/store/redis", "schedule", "api/carillon/v1",
	"server/examples/embedded", "server/examples/remote", "server/examples/webhook"}

// TestLibrariesDoNotLinkWhatIsDaprs: neither the protocol nor the client of Kubernetes.
func TestLibrariesDoNotLinkWhatIsDaprs(t *testing.T) {
	graph := map[string][]string{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, path := range s.imports() {
			if pkg, ok := strings.CutPrefix(path, module); ok {
				pkg = strings.TrimPrefix(pkg, "/")
				if pkg == "" {
					pkg = "."
				}
				graph[s.pkg()] = append(graph[s.pkg()], pkg)
			}
		}
	}
	for _, of := range []string{"api/dapr/proto/scheduler/v1", "server/internal/kubens"} {
		for _, pkg := range apart {
			if way := wayTo(graph, pkg, of, map[string]bool{}); way != nil {
				t.Errorf("%s links %s: %s", pkg, of, strings.Join(way, " imports "))
			}
		}
		if wayTo(graph, "server/cmd/carillon", of, map[string]bool{}) == nil {
			t.Errorf("the command does not link %s either: the graph was not understood", of)
		}
	}
}

// wayTo is how one package comes to import another; nil if it does not.
func wayTo(graph map[string][]string, from, to string, seen map[string]bool) []string {
	if from == to {
		return []string{to}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range graph[from] {
		if rest := wayTo(graph, next, to, seen); rest != nil {
			return slices.Insert(rest, 0, from)
		}
	}
	return nil
}
