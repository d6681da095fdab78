// Command openapi finishes the OpenAPI document that protoc-gen-openapiv2 wrote, for what protobuf has no words for: enum
// values are written in short, payloads under two names, every error is a problem document.
//
//	openapi IN OUT
//
// IN is removed.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// object is any JSON object.
type object = map[string]any

func run(in, out string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	// Definitions are called v1Job, after the package; a reader knows a Job.
	text = []byte(strings.NewReplacer(`#/definitions/v1`, `#/definitions/`, `#/definitions/SchedulerService`, `#/definitions/`,
		`#/definitions/ClusterService`, `#/definitions/`).Replace(string(text)))
	var doc object
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	doc["info"] = object{
		"title":       "Carillon",
		"version":     "v1",
		"description": "A distributed job scheduler. Job names contain \"/\"; in paths they are written as they are.",
	}
	definitions := object{"Problem": problemSchema()}
	for name, schema := range doc["definitions"].(object) {
		finishSchema(schema.(object))
		definitions[plainName(name)] = schema
	}
	doc["definitions"] = definitions
	for path, methods := range doc["paths"].(object) {
		for _, method := range slices.Sorted(maps.Keys(methods.(object))) {
			finishMethod(path, methods.(object)[method].(object))
		}
	}
	if err := write(out, doc); err != nil {
		return err
	}
	return os.Remove(in)
}

// plainName is a definition's name without its package or service.
func plainName(name string) string {
	for _, prefix := range []string{"v1", "SchedulerService", "ClusterService"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}

func write(out string, doc object) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return f.Close()
}

// finishSchema finishes one definition.
func finishSchema(schema object) {
	if _, ok := schema["enum"]; ok {
		finishEnum(schema)
		return
	}
	properties, _ := schema["properties"].(object)
	finishBytes(properties, "data", object{})
	finishBytes(properties, "response", object{"type": "string"})
	if properties != nil {
		schema["additionalProperties"] = false // unknown fields are refused
	}
}

// finishEnum writes an enum's values as REST does: OVERLAP_SERIAL is "serial", and OVERLAP_UNSPECIFIED is not written.
func finishEnum(schema object) {
	values := schema["enum"].([]any)
	prefix := strings.TrimSuffix(values[0].(string), "UNSPECIFIED")
	words := []any{}
	description, _, _ := strings.Cut(schema["description"].(string), "\n\n")
	for _, v := range values[1:] {
		words = append(words, strings.ToLower(strings.TrimPrefix(v.(string), prefix)))
	}
	for line := range strings.SplitSeq(schema["description"].(string), "\n") {
		name, what, ok := strings.Cut(strings.TrimPrefix(line, " - "), ": ")
		if ok && strings.HasPrefix(name, prefix) && name != values[0] {
			description += "\n - " + strings.ToLower(strings.TrimPrefix(name, prefix)) + ": " + what
		}
	}
	schema["enum"], schema["description"] = words, description
	delete(schema, "default")
}

// finishBytes gives bytes their two names.
func finishBytes(properties object, name string, plain object) {
	inBase64, ok := properties[name].(object)
	if !ok || inBase64["format"] != "byte" {
		return
	}
	plain["description"] = inBase64["description"]
	properties[name], properties[name+"_base64"] = plain, inBase64
}

// finishMethod finishes one call.
func finishMethod(path string, method object) {
	responses := method["responses"].(object)
	if method["operationId"] == "SchedulerService_PutJob" || method["operationId"] == "SchedulerService_CreateJob" {
		responses["201"] = object{"description": "The job was created.", "schema": responses["200"].(object)["schema"]}
	}
	responses["default"] = object{
		"description": "A problem document (RFC 9457), application/problem+json.",
		"schema":      object{"$ref": "#/definitions/Problem"},
	}
	kept := []any{}
	parameters, _ := method["parameters"].([]any)
	for _, p := range parameters {
		p := p.(object)
		if p["in"] == "query" && p["type"] == "array" {
			continue // a patch's fields are those that its body has
		}
		if values, ok := p["enum"].([]any); ok {
			p["enum"] = queryWords(values)
			delete(p, "default")
			p["description"], _, _ = strings.Cut(p["description"].(string), "\n\n")
		}
		kept = append(kept, p)
	}
	method["parameters"] = append(kept, headers(path, method["operationId"].(string))...)
}

// queryWords are an enum's values in a query.
func queryWords(values []any) []any {
	prefix := strings.TrimSuffix(values[0].(string), "UNSPECIFIED")
	words := []any{}
	for _, v := range values[1:] {
		words = append(words, strings.ToLower(strings.TrimPrefix(v.(string), prefix)))
	}
	return words
}

// headers are the headers that a call knows.
func headers(path, operation string) []any {
	header := func(name, description string) any {
		return object{"name": name, "in": "header", "required": false, "type": "string", "description": description}
	}
	ifMatch := header("If-Match", `"<generation>": only over this generation.`)
	switch {
	case operation == "SchedulerService_PutJob":
		return []any{ifMatch, header("If-None-Match", "*: only if there is none of the name.")}
	case operation == "SchedulerService_PatchJob":
		return []any{ifMatch}
	case strings.HasSuffix(path, ":complete"):
		return []any{header("Carillon-Token", "The token that the delivery came with.")}
	}
	return nil
}

// problemSchema is the schema of every error.
func problemSchema() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	return object{
		"type":        "object",
		"description": "Why a call failed (RFC 9457).",
		"required":    []any{"type", "title", "status", "code", "detail"},
		"properties": object{
			"type":            text("Always about:blank."),
			"title":           text("The status in words."),
			"status":          object{"type": "integer", "description": "The HTTP status."},
			"code":            text("Stable; for programs."),
			"field":           text("The offending field, for example target.http.url."),
			"detail":          text("A sentence that a user can act on."),
			"outcome_unknown": object{"type": "boolean", "description": "The change may or may not have been made."},
		},
	}
}
