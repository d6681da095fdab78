package ingest

import (
	"maps"
	"slices"
	"strings"
)

// spellings adds to the schema of an object that members may be written in camel case: due_time as dueTime. A
// member is given once.
func spellings(schema object) {
	members, _ := schema["properties"].(object)
	defines := schema["additionalProperties"] == false
	for _, name := range slices.Sorted(maps.Keys(members)) {
		other := camel(name)
		if other == name {
			continue
		}
		members[other] = members[name]
		if defines {
			once, _ := schema["dependentSchemas"].(object)
			if once == nil {
				once = object{}
				schema["dependentSchemas"] = once
			}
			once[other] = object{"properties": object{name: object{"type": "null"}}}
		}
	}
	required, _ := schema["required"].([]any)
	var rest, either []any
	for _, r := range required {
		name, _ := r.(string)
		if other := camel(name); other != name {
			either = append(either, object{"anyOf": []any{
				object{"required": []any{name}}, object{"required": []any{other}}}})
			continue
		}
		rest = append(rest, r)
	}
	if len(either) == 0 {
		return
	}
	delete(schema, "required")
	if len(rest) > 0 {
		schema["required"] = rest
	}
	all, _ := schema["allOf"].([]any)
	schema["allOf"] = append(all, either...)
}

func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// asText adds to the schema of a whole number that it may be written as a text.
func asText(schema object) {
	types, _ := schema["type"].([]any)
	if one, is := schema["type"].(string); is {
		types = []any{one}
	}
	if !slices.Contains(types, any("integer")) || slices.Contains(types, any("string")) {
		return
	}
	schema["type"], schema["pattern"] = append(slices.Clone(types), "string"), "^[0-9]+$"
	if least, is := schema["minimum"].(float64); !is || least < 0 {
		schema["pattern"] = "^-?[0-9]+$"
	}
}
