package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// renamed are the calls that have a second path.
var renamed = map[string]string{"ListRuns_1": "ListRunsOfJob", "RedriveRuns_1": "RedriveRunsOfJob",
	"Watch_1": "WatchNamespace"}

// bodies are what calls take that have a schema of its own, and whether they need it. Other bodies are
// optional.
var bodies = map[string]struct {
	schema   string
	required bool
}{
	"PutJob":    {"JobInput", true},
	"CreateJob": {"JobInput", true},
	"PatchJob":  {"JobPatch", false},
}

// needed are the fields that the other bodies need.
var needed = map[string][]any{
	"CompleteRun":   {"outcome", "token"},
	"CreateKey":     {"grants"},
	"StartBackfill": {"from"},
	"BulkRuns":      {"action"},
	"BulkJobs":      {"action"},
}

// overlaps are the overlap rules that calls take.
var overlaps = map[string][]any{"StartBackfill": {"serial", "allow"}, "TriggerJob": {"allow", "skip", "replace"}}

// finishCalls finishes every call.
func (d *document) finishCalls() {
	for _, path := range slices.Sorted(maps.Keys(d.paths)) {
		methods := must(d.paths, path)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			d.finishCall(method, must(methods, method))
		}
	}
}

func (d *document) finishCall(method string, call object) {
	_, name, _ := strings.Cut(call["operationId"].(string), "_")
	if other, ok := renamed[name]; ok {
		name = other
	}
	call["operationId"] = name
	for i, tag := range call["tags"].([]any) {
		call["tags"].([]any)[i] = plainTag(tag.(string))
	}
	if call["description"] == nil {
		call["description"] = call["summary"]
	}
	call["summary"] = summary(name)
	d.finishParameters(name, call)
	d.finishBody(name, call)
	d.finishAnswers(name, method, call)
}

// summary is the name of a call in words.
func summary(name string) string {
	words := strings.ReplaceAll(snakeCase(name), "_", " ")
	words = strings.TrimSpace(words)
	return strings.ToUpper(words[:1]) + words[1:]
}

// finishParameters writes parameters as REST reads them, with their ranges, and adds the headers.
func (d *document) finishParameters(name string, call object) {
	kept := []any{}
	given, _ := call["parameters"].([]any)
	for _, p := range given {
		p := p.(object)
		p["name"] = snakeCase(p["name"].(string))
		schema := must(p, "schema")
		if p["in"] == "query" && p["name"] == "status" {
			p["schema"] = object{"type": "array", "items": object{"type": "string", "enum": statuses()}}
			kept = append(kept, p)
			continue
		}
		if schema["type"] == "array" {
			continue // a patch's fields are those that its body has
		}
		if name == "ListRuns" && p["name"] == "job" || name == "ListRunsOfJob" && p["name"] == "prefix" {
			continue // the first is ListRunsOfJob, which has nothing to select by a prefix
		}
		finishValue(schema)
		r, ok := parameterRanges[name+"."+p["name"].(string)]
		if !ok {
			r, ok = parameterRanges[p["name"].(string)]
		}
		if !ok {
			panic(fmt.Sprintf("no range for the parameter %s of %s", p["name"], name))
		}
		maps.Copy(schema, clone(r))
		if name == "DeleteJobs" && p["name"] == "prefix" {
			p["required"] = true
		}
		kept = append(kept, p)
	}
	if kept = append(kept, headers(name)...); len(kept) > 0 {
		call["parameters"] = kept
	}
}

// statuses are those of runs.
func statuses() []any {
	return []any{"scheduled", "staged", "running", "retrying", "succeeded", "failed", "dead", "cancelled", "skipped"}
}

// headers are the headers that a call knows.
func headers(call string) []any {
	header := func(name, description string, schema object) any {
		schema["type"] = "string"
		return object{"name": name, "in": "header", "required": false, "schema": schema, "description": description}
	}
	ifMatch := header("If-Match", "The generation in quotes, as the ETag has it: only over this one.",
		object{"format": "generation-tag", "minLength": 3})
	switch call {
	case "PutJob":
		return []any{ifMatch, header("If-None-Match", "Only if there is none of the name.",
			object{"enum": []any{"*"}})}
	case "PatchJob", "DeleteJob", "PutNamespace", "PutCalendar", "DeleteCalendar":
		return []any{ifMatch}
	case "Watch", "WatchNamespace":
		return []any{header("Last-Event-ID", "The position from which to go on, if the query has none.", object{})}
	case "CompleteRun":
		return []any{header("Carillon-Token",
			"The token that the delivery came with, if the body has none.", object{})}
	}
	return nil
}

// finishBody gives a call's body its schema.
func (d *document) finishBody(name string, call object) {
	if call["requestBody"] == nil {
		return
	}
	body := must(call, "requestBody")
	media := must(body, "content", "application/json")
	if b, ok := bodies[name]; ok {
		media["schema"], body["required"] = ref(b.schema), b.required
		media["examples"] = bodyExamples(name)
		return
	}
	schema := must(media, "schema")
	if schema["properties"] == nil {
		schema["properties"] = object{}
	}
	finishMessage(schema)
	properties := must(schema, "properties")
	for field, r := range bodyRanges {
		if call, field, _ := strings.Cut(field, "."); call == name {
			maps.Copy(fieldOf(properties, field), clone(r))
		}
	}
	d.makeInput(properties)
	schema["additionalProperties"] = false
	required := needed[name]
	for _, field := range required {
		if to, ok := properties[field.(string)].(object)["anyOf"]; ok {
			properties[field.(string)] = to.([]any)[0]
			continue
		}
		p := must(properties, field.(string))
		p["type"] = p["type"].([]any)[0]
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	maps.Copy(schema, together(name))
	if rules, some := overlaps[name]; some {
		properties["overlap"] = object{"enum": append(rules, nil),
			"description": must(properties, "overlap")["description"]}
	}
	body["required"] = len(required) > 0 || name == "PreviewSchedule"
}

// together says which fields of a body belong together.
func together(call string) object {
	given := func(field string) object {
		return object{"properties": object{field: object{"type": "string", "minLength": 1}},
			"required": []any{field}}
	}
	outcome := func(word, field string, schema object) object {
		return object{
			"if":   object{"properties": object{"outcome": object{"const": word}}, "required": []any{"outcome"}},
			"then": object{"properties": object{field: schema}, "required": []any{field}},
		}
	}
	switch call {
	case "PreviewSchedule":
		return object{"anyOf": []any{given("schedule"), given("due_time")}}
	case "TriggerJob":
		return object{
			"if": given("content_type"),
			"then": object{"anyOf": []any{
				object{"properties": object{"data": object{}}, "required": []any{"data"}},
				object{"properties": object{"data_base64": object{"type": "string"}},
					"required": []any{"data_base64"}},
				object{"properties": object{"payload": object{"type": "string", "minLength": 1}},
					"required": []any{"payload"}}}},
			"not": onePayload(),
		}
	case "CompleteRun":
		return object{
			"allOf": []any{outcome("progress", "progress", object{"type": "object"}),
				outcome("reschedule", "at", object{"type": "string"})},
			"not": bothOf("response", "response_base64"),
		}
	}
	return nil
}

// onePayload is that a payload is given in two ways, which is refused.
func onePayload() object {
	reference := func(other string) object {
		both := bothOf(other, "payload")
		both["properties"].(object)["payload"] = object{"type": "string", "minLength": 1}
		return both
	}
	return object{"anyOf": []any{bothOf("data", "data_base64"), reference("data"), reference("data_base64")}}
}

// bothOf is that two fields are given.
func bothOf(a, b string) object {
	return object{"properties": object{a: object{}, b: object{}}, "required": []any{a, b}}
}

// bodyExamples are examples of bodies.
func bodyExamples(call string) object {
	nightly := object{"summary": "A report every night", "value": object{
		"schedule": "0 0 2 * * *", "time_zone": "Europe/London", "data": object{"kind": "daily"},
		"target":         object{"http": object{"url": "https://reports.example.com/run"}},
		"failure_policy": object{"exponential": object{"initial": "2s", "max_retries": 4}},
	}}
	once := object{"summary": "A reminder",
		"value": object{"due_time": "24h", "target": object{"worker": object{"queue": "mail"}}}}
	if call == "PatchJob" {
		return object{"time": object{"summary": "Another time", "value": object{"schedule": "0 30 3 * * *"}}}
	}
	return object{"nightly": nightly, "once": once}
}
