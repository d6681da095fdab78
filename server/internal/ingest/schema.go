package ingest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// object is one of a JSON schema.
type object = map[string]any

// bodies are the types of events whose data is the body of a request of the REST API.
var bodies = []struct{ typ, method, path, about string }{
	{JobPut, "put", "/v1/namespaces/{namespace}/jobs/{name}", "Put the job."},
	{JobCreate, "put", "/v1/namespaces/{namespace}/jobs/{name}", "Put the job, unless there is one of its name."},
	{JobTrigger, "post", "/v1/namespaces/{namespace}/jobs/{name}:trigger", "Run the job now. Data may be left out."},
	{RunComplete, "post", "/v1/namespaces/{namespace}/runs/{id}:complete", "Report how an attempt has ended."},
}

const refPrefix = "#/components/schemas/"

// Schema returns the JSON schema (2020-12) of the events that are commands, in structured mode. What the data
// is comes from the description of the REST API.
func Schema() ([]byte, error) {
	var api struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(httpapi.OpenAPI(), &api); err != nil {
		return nil, fmt.Errorf("the description of the REST API: %w", err)
	}
	defs := object{}
	kinds := []any{kind(JobDelete, "Delete the job; that there is none is no error. It has no data.", false)}
	for _, b := range bodies {
		var call struct {
			RequestBody struct {
				Content map[string]struct{ Schema any }
			}
		}
		if err := json.Unmarshal(api.Paths[b.path][b.method], &call); err != nil {
			return nil, fmt.Errorf("%s %s: %w", b.method, b.path, err)
		}
		data := call.RequestBody.Content["application/json"].Schema
		if data == nil {
			return nil, fmt.Errorf("%s %s: it has no body", b.method, b.path)
		}
		k := kind(b.typ, b.about, b.typ != JobTrigger)
		k["properties"].(object)["data"] = within(data, api.Components.Schemas, defs) //nolint:forcetypeassert // kind's
		kinds = append(kinds, k)
	}
	text := func(about string) object { return object{"type": "string", "minLength": 1, "description": about} }
	named := text("The job's name. Of a completion the run's id, which may be left out.")
	return json.MarshalIndent(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "A command for Carillon",
		"description": "A CloudEvent in structured mode that an ingest of Carillon carries out. See docs/ingest.md.",
		"type":        "object",
		"properties": object{
			"specversion": object{"const": version},
			"id":          text("Tells the events of a source apart. An event that comes again changes nothing."),
			"source":      text("Who sends the event."),
			"type":        object{"enum": Types},
			"subject":     named,
			"time": object{"type": "string", "format": "date-time",
				"description": "When the command was given: relative times count from then."},
			"datacontenttype": object{"const": "application/json"},
			"ifgeneration": object{"type": []string{"integer", "string"}, "minimum": 1,
				"description": "Only at this generation of the job; of a put or a delete."},
		},
		"required": []string{"specversion", "id", "source", "type"},
		"oneOf":    kinds,
		"$defs":    defs,
	}, "", "  ")
}

// kind is the schema of what is different in one type of event.
func kind(typ, about string, data bool) object {
	k := object{"title": typ, "description": about, "properties": object{"type": object{"const": typ}}}
	var required []string
	if data {
		required = append(required, "data")
	}
	if typ == JobDelete || typ == JobTrigger {
		required = append(required, "subject")
	}
	k["required"] = append(required, "type")
	return k
}

// within is a schema of the API with its references into defs, where it puts what they name.
func within(v any, all map[string]any, defs object) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(object, len(v))
		for name, value := range v {
			if ref, is := value.(string); is && name == "$ref" {
				ref = strings.TrimPrefix(ref, refPrefix)
				out[name] = "#/$defs/" + ref
				if defs[ref] == nil {
					defs[ref] = object{} // it may name itself
					defs[ref] = within(all[ref], all, defs)
				}
				continue
			}
			out[name] = within(value, all, defs)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = within(v[i], all, defs)
		}
		return out
	}
	return v
}
