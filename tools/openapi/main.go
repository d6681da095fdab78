// Command openapi finishes the OpenAPI documents that protoc-gen-openapiv3 wrote, one for each service, for
// what protobuf and its annotations have no words for: errors are problem documents, REST has names, headers
// and ranges of its own, and null stands for the default.
//
//	openapi IN PROTOS OUT
//
// IN is the folder of those documents; it is removed. PROTOS is the folder of the .proto files. Everything
// that is said here by name must be in the documents, so that nothing outlives what it was said of; tests of
// server/internal/httpapi hold the result against the code.
//
//	main.go      reading, merging, writing
//	schemas.go   what messages and enums look like in JSON
//	inputs.go    what of them may be sent
//	calls.go     parameters, headers, bodies, links
//	answers.go   what calls answer: statuses, problem documents
//	ranges.go    what values fields take
//	words.go     what the enums' values mean, from the .proto files
//	plain.go     what is served besides the API
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: openapi IN PROTOS OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// object is any JSON object.
type object = map[string]any

// document is what is being made.
type document struct {
	paths   object
	schemas object
	tags    []any
}

func run(in, protos, out string) error {
	d, err := read(in)
	if err != nil {
		return err
	}
	words, err := readWords(protos)
	if err != nil {
		return err
	}
	// What is said of names that are not there panics: it is a mistake in this command, to be mended before
	// anything is written.
	d.finishSchemas(words)
	d.addRanges()
	d.addInputs()
	d.finishCalls()
	d.addPlain()
	d.prune()
	if err := write(out, d.whole()); err != nil {
		return err
	}
	return os.RemoveAll(in)
}

// read merges the documents in a folder.
func read(dir string) (*document, error) {
	files, err := filepath.Glob(filepath.Join(dir, "carillon", "v1", "*.openapi.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no documents in %s: %w", dir, err)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(b, a) }) // the scheduler first
	d := &document{paths: object{}, schemas: object{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		// Schemas are called carillon.v1.Job; a reader knows a Job.
		text = []byte(strings.ReplaceAll(string(text), `"#/components/schemas/carillon.v1.`,
			`"#/components/schemas/`))
		var part struct {
			OpenAPI    string
			Paths      object
			Components struct{ Schemas object }
			Tags       []object
		}
		if err := json.Unmarshal(text, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if !strings.HasPrefix(part.OpenAPI, "3.1.") {
			return nil, fmt.Errorf("%s is of OpenAPI %s", file, part.OpenAPI)
		}
		maps.Copy(d.paths, part.Paths)
		for name, schema := range part.Components.Schemas {
			d.schemas[strings.TrimPrefix(name, "carillon.v1.")] = schema
		}
		for _, tag := range part.Tags {
			d.tags = append(d.tags, object{"name": plainTag(tag["name"].(string)), "description": tag["description"]})
		}
	}
	return d, nil
}

// plainTag is a service's name as a reader says it.
func plainTag(service string) string { return strings.TrimSuffix(service, "Service") }

// whole is the document with what stands around its paths and schemas.
func (d *document) whole() object {
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title":   "Carillon",
			"version": "v1",
			"summary": "A distributed job scheduler.",
			"description": "Durable jobs, each of whose runs goes to exactly one consumer at its time.\n\n" +
				"Names of jobs contain \"/\". In a path it may be written as it is or as %2F.\n\n" +
				"Field names are snake_case; camelCase is read as well. A field that is null is as one that is not given. " +
				"Durations are Go or ISO 8601 durations, such as 90s or PT90S. 64-bit integers are strings. Lengths are counted in " +
				"bytes of UTF-8.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"contact": object{"name": "Carillon", "url": "https://github.com/carillonhq/carillon"},
		},
		"servers": []any{
			object{"url": "/", "description": "The node that this document comes from."},
			object{"url": "{scheme}://{node}", "description": "Any node.", "variables": object{
				"scheme": object{"default": "http", "enum": []any{"http", "https"},
					"description": "https where something in front of the node speaks TLS."},
				"node": object{"default": "127.0.0.1:7080",
					"description": "Where the node listens for REST: its setting --http."},
			}},
		},
		"security":   []any{}, // nobody is authenticated
		"tags":       d.tags,
		"paths":      d.paths,
		"components": object{"schemas": d.schemas, "responses": responses(), "headers": responseHeaders()},
	}
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

// prune takes out the schemas that nothing refers to.
func (d *document) prune() {
	used := map[string]bool{"Problem": true}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case object:
			if to := refName(v); to != "" && !used[to] && d.schemas[to] != nil {
				used[to] = true
				walk(d.schemas[to])
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(d.paths)
	maps.DeleteFunc(d.schemas, func(name string, _ any) bool { return !used[name] })
}

// must is the object that a path of names leads to.
func must(o object, names ...string) object {
	for _, name := range names {
		next, ok := o[name].(object)
		if !ok {
			panic(fmt.Sprintf("there is no %s in %v", name, names))
		}
		o = next
	}
	return o
}

// ref refers to a schema.
func ref(name string) object { return object{"$ref": schemaPrefix + name} }

const schemaPrefix = "#/components/schemas/"

// refName is the name of the schema that a reference is to; empty if s is none.
func refName(s object) string {
	to, _ := s["$ref"].(string)
	return strings.TrimPrefix(to, schemaPrefix)
}

// clone copies a schema with all that is in it.
func clone[T any](v T) T {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out T
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}
