package main

import (
	"maps"
	"slices"
	"strings"
)

// finishSchemas writes schemas as REST writes what they describe.
func (d *document) finishSchemas(words map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		schema := d.schemas[name].(object)
		if _, ok := schema["enum"]; ok {
			finishEnum(schema, name, words)
			continue
		}
		finishMessage(schema)
		if whole(name) {
			schema["required"] = alwaysThere(name, must(schema, "properties"))
		}
	}
	d.schemas["Problem"] = problemSchema()
}

// finishMessage writes a message's fields as REST does.
func finishMessage(schema object) {
	properties, _ := schema["properties"].(object)
	out := object{}
	for name, p := range properties {
		p := p.(object)
		finishValue(p)
		name = snakeCase(name)
		if plain, ok := strings.CutSuffix(name, "_base64"); ok {
			out[plain] = payloadSchema(plain, p)
		}
		out[name] = p
	}
	schema["properties"] = out
	if _, ok := schema["oneOf"]; ok {
		schema["oneOf"] = oneOf(schema["oneOf"].([]any))
	}
}

// finishValue writes a value's schema as REST writes the value.
func finishValue(p object) {
	if items, ok := p["items"].(object); ok {
		finishValue(items)
	}
	switch p["format"] {
	case "uint64":
		p["pattern"] = "^[0-9]+$"
	case "byte":
		delete(p, "format")
		p["contentEncoding"] = "base64"
		p["pattern"] = `^([A-Za-z0-9+/_-]{4})*([A-Za-z0-9+/_-]{2,3}={0,2})?$` // of either alphabet, padded or not
	case "uint32":
		delete(p, "format")
		p["minimum"], p["maximum"] = 0, 1<<32-1
	}
}

// payloadSchema is that of bytes under the name that is not for base64: any JSON, or a text.
func payloadSchema(name string, inBase64 object) object {
	plain := object{"description": inBase64["description"]}
	if name != "data" {
		plain["type"] = "string"
	}
	return plain
}

// oneOf are the forms of a oneof: the generator's, each for itself. The first is that there is none.
func oneOf(forms []any) []any {
	out := []any{}
	for _, f := range forms[1:] {
		name := f.(object)["required"].([]any)[0].(string)
		out = append(out, object{"properties": object{name: object{}}, "required": []any{name}})
	}
	return append([]any{object{"not": object{"anyOf": out}}}, out...)
}

// snakeCase is a camelCase name in snake_case.
func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c |= 0x20
		}
		b.WriteByte(c)
	}
	return b.String()
}

// finishEnum writes an enum's values as REST does: OVERLAP_SERIAL is "serial", and OVERLAP_UNSPECIFIED is not
// written.
func finishEnum(schema object, name string, meanings map[string]string) {
	words := enumWords(schema["enum"].([]any))
	description := schema["description"].(string) + "\n"
	prefix := strings.TrimSuffix(schema["enum"].([]any)[0].(string), "UNSPECIFIED")
	for _, w := range words {
		meaning, ok := meanings[prefix+strings.ToUpper(w.(string))]
		if !ok {
			panic("the protos do not say what " + w.(string) + " of " + name + " is")
		}
		description += "\n- `" + w.(string) + "`: " + meaning
	}
	schema["enum"], schema["description"] = words, description
}

// enumWords are the words of an enum's values, but for the one of nothing.
func enumWords(values []any) []any {
	prefix := strings.TrimSuffix(values[0].(string), "UNSPECIFIED")
	words := []any{}
	for _, v := range values[1:] {
		words = append(words, strings.ToLower(strings.TrimPrefix(v.(string), prefix)))
	}
	return words
}

// whole reports whether a message is written with what is empty in it.
func whole(name string) bool {
	return strings.HasSuffix(name, "Response") ||
		slices.Contains([]string{"JobStatus", "Counters", "Backfill", "Namespace", "Progress", "Cluster",
			"Node", "PartitionOwner", "Queue", "Worker", "Calendar"}, name)
}

// optional are the fields of such messages that are left out when they say nothing.
var optional = []string{"Node.skew", "JobStatus.failures", "JobStatus.pending_count"}

// alwaysThere are the fields of such a message that are always written: not messages, times and enums, nor
// what is optional.
func alwaysThere(message string, properties object) []any {
	names := []any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name].(object)
		if p["$ref"] != nil || p["format"] == "date-time" || slices.Contains(optional, message+"."+name) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// problemSchema is the schema of every error.
func problemSchema() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	return object{
		"type":        "object",
		"description": "Why a call failed (RFC 9457).",
		"required":    []any{"type", "title", "status", "code", "detail"},
		"properties": object{
			"type": object{"type": "string", "const": "about:blank",
				"description": "Always about:blank: the code says which problem it is."},
			"title":  text("The status in words."),
			"status": object{"type": "integer", "minimum": 400, "maximum": 599, "description": "The HTTP status."},
			"code":   object{"type": "string", "description": "Stable; for programs.", "enum": problemCodes()},
			"field":  text("The offending field, for example target.http.url."),
			"detail": text("A sentence that a user can act on."),
			"outcome_unknown": object{"type": "boolean",
				"description": "The change may or may not have been made: look, or repeat it if that is harmless."},
		},
	}
}
