package httpapi

import (
	"slices"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// merged are the fields of a job of which a PATCH may give a part, as in a JSON merge patch (RFC 7396).
var merged = []string{"failure_policy", "history"}

// UnmarshalPatch reads the body of a PATCH into m, which must be empty, and returns the fields that it names,
// of policies the parts: what `carillon job patch -f` reads.
func UnmarshalPatch(body []byte, m *pb.Job) (fields []string, err error) {
	all, err := Unmarshal(body, m)
	return all.patchPaths(), err
}

// patchPaths says which fields a patch names: of policies those that are in it, of anything else the whole
// field.
func (all Given) patchPaths() (paths []string) {
	for _, g := range all {
		if g.null || !slices.Contains(merged, g.field) {
			paths = append(paths, g.field)
		} else {
			paths = append(paths, g.parts()...)
		}
	}
	return paths
}

// parts are the paths of what an object gives.
func (g given) parts() (paths []string) {
	for _, inner := range g.within {
		parts := inner.parts()
		if len(parts) == 0 {
			parts = []string{inner.field}
		}
		for _, part := range parts {
			paths = append(paths, join(g.field, part))
		}
	}
	return paths
}
