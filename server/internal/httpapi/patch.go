package httpapi

import (
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// merged are the fields of a job of which a PATCH may give a part, as in a JSON merge patch (RFC 7396).
var merged = []string{"failure_policy", "history"}

// UnmarshalPatch reads the body of a PATCH into m, which must be empty, and returns the fields that it names,
// of policies the parts: what `carillon job patch -f` reads.
func UnmarshalPatch(body []byte, m *pb.Job) (fields []string, err error) {
	given, err := Unmarshal(body, m)
	if err != nil {
		return nil, err
	}
	return patchPaths(body, given, m.ProtoReflect())
}

// patchPaths says which fields a patch names: of policies those that are in the body, of anything else the
// whole field. given and m are what has been read of the body.
func patchPaths(body []byte, given []string, m protoreflect.Message) ([]string, error) {
	if !slices.ContainsFunc(given, func(f string) bool { return slices.Contains(merged, f) }) {
		return given, nil
	}
	parts, err := partsGiven(body, m)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, field := range given {
		inner, ok := parts[field]
		if !ok || string(inner) == "null" || !slices.Contains(merged, field) {
			paths = append(paths, field)
			continue
		}
		within, err := pathsWithin(field, inner,
			m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).Message())
		if err != nil {
			return nil, err
		}
		paths = append(paths, within...)
	}
	return paths, nil
}

// pathsWithin are the paths of what an object gives.
func pathsWithin(path string, object []byte, m protoreflect.Message) ([]string, error) {
	parts, err := partsGiven(object, m)
	if err != nil {
		return nil, err
	}
	var paths []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		part, ok := parts[string(fd.Name())]
		if !ok {
			continue
		}
		at := join(path, string(fd.Name()))
		var within []string
		switch {
		case string(part) != "null" && isObject(fd):
			if within, err = pathsWithin(at, part, m.Get(fd).Message()); err != nil {
				return nil, err
			}
		case string(part) == "null" && fd.ContainingOneof() != nil && m.WhichOneof(fd.ContainingOneof()) != nil:
			continue // another form takes its place
		}
		if len(within) == 0 {
			within = []string{at}
		}
		paths = append(paths, within...)
	}
	return paths, nil
}

// partsGiven are the members of an object, by the name of their field.
func partsGiven(object []byte, m protoreflect.Message) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	known, parts := membersFor(m.Descriptor()), map[string]json.RawMessage{}
	for name, value := range members {
		field := string(known[name].field.Name())
		if _, twice := parts[field]; !twice || string(value) != "null" {
			parts[field] = value
		}
	}
	return parts, nil
}
