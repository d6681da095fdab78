package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// object is one of a JSON schema.
type object = map[string]any

// bodies are the types of events whose data is the body of a request of the REST API. The path of the request
// has a name that data may have.
var bodies = []struct{ typ, method, path, about, name string }{
	{JobPut, "put", "/v1/namespaces/{namespace}/jobs/{name}", "Put the job.", "name"},
	{JobCreate, "put", "/v1/namespaces/{namespace}/jobs/{name}", "Put the job, unless there is one of its name.", "name"},
	{JobTrigger, "post", "/v1/namespaces/{namespace}/jobs/{name}:trigger", "Run the job now. Data may be left out.", "name"},
	{RunComplete, "post", "/v1/namespaces/{namespace}/runs/{id}:complete", "Report how an attempt has ended.", "id"},
}

const schemaAbout = "A CloudEvent in structured mode that an ingest of Carillon carries out. See docs/ingest.md. A schema cannot " +
	"say that subject and the name in data (the id, of a completion) are the same if both are given, that a namespace in " +
	"data is that of the ingest, nor what data_base64 holds: that is what data would be. What only a node knows, such as " +
	"whether a schedule can be read, is not said here either."

// Schema returns the JSON schema (2020-12) of the events that are commands, in structured mode. What the data
// is comes from the description of the REST API.
func Schema() ([]byte, error) {
	d, err := describe(httpapi.OpenAPI())
	if err != nil {
		return nil, err
	}
	jobInput := d.schemas["JobInput"].(object)["properties"].(object) //nolint:forcetypeassert // it is generated
	kinds := []any{deletes(d.within(jobInput["name"]))}
	for _, b := range bodies {
		body, err := d.body(b.method, b.path)
		if err != nil {
			return nil, err
		}
		if members, is := body["properties"].(object); is { // else it is a job, which has them
			members["namespace"] = d.within(jobInput["namespace"])
			members[b.name] = object{"type": []string{"string", "null"}, "description": "In place of subject, or the same."}
		}
		k := kind(b.typ, b.about)
		members := k["properties"].(object) //nolint:forcetypeassert // kind's
		members["data"] = object{"anyOf": []any{body, object{"type": "null"}}}
		var needs []any
		if b.typ != JobTrigger {
			needs = append(needs, object{"anyOf": []any{having("data", object{"type": "object"}), encoded}})
		}
		if b.typ != RunComplete {
			members["subject"] = nameOf(d.within(jobInput["name"]))
			inData := having("data", having(b.name, object{"type": "string", "minLength": 1}))
			needs = append(needs, object{"anyOf": []any{having("subject", present), inData, encoded}})
		}
		if b.typ != JobPut {
			members[ifGeneration] = object{"enum": []any{nil, ""}}
		}
		if len(needs) > 0 {
			k["allOf"] = needs
		}
		kinds = append(kinds, k)
	}
	return json.MarshalIndent(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "A command for Carillon",
		"description": schemaAbout,
		"type":        "object",
		"properties":  attributes(),
		"required":    []string{specVersion, eventID, eventSource, eventType},
		"oneOf":       kinds,
		"allOf": []any{
			object{"not": object{"allOf": []any{having("data", notNull), having("data_base64", notNull)}}},
			object{
				"if": object{"anyOf": []any{having("data", notNull), having("data_base64", notNull)}},
				"then": object{"properties": object{
					dataType: object{"type": []string{"string", "null"}, "pattern": jsonType}}},
			},
		},
		"$defs": d.defs,
	}, "", "  ")
}

var (
	notNull = object{"not": object{"type": "null"}}
	// present is an attribute that is not left out: a text may be empty for that.
	present = object{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	// encoded is an event whose data is in data_base64.
	encoded = having("data_base64", object{"type": "string", "minLength": 1})
)

const (
	// jsonType are the content types of JSON; empty is left out.
	jsonType = `^$|^[ \t]*([aA][pP][pP][lL][iI][cC][aA][tT][iI][oO][nN]/|[^;]+\+)[jJ][sS][oO][nN][ \t]*(;.*)?$`
	timeText = `^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))?$`
	// base64Text may be broken into lines.
	base64Text = `^[\r\n]*(([A-Za-z0-9+/][\r\n]*){4})*(([A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*|([A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$`
)

// attributes are the members of an event, as far as they are the same in all types.
func attributes() object {
	// An attribute may be written as a number or a boolean, too. A length is in characters here.
	text := func(about string, of object) object {
		all := object{"maxLength": maxAttribute, "description": about}
		maps.Copy(all, of)
		return all
	}
	optional := object{"type": []string{"string", "number", "boolean", "null"}}
	return object{
		specVersion: object{"const": version},
		eventID:     text("Tells the events of a source apart. An event that comes again changes nothing.", present),
		eventSource: text("Who sends the event.", present),
		eventType:   object{"enum": Types},
		subject:     text("The job's name, unless data has it. Of a completion the run's id, which may be left out.", optional),
		eventTime: object{"type": []string{"string", "null"}, "pattern": timeText,
			"anyOf":       []any{object{"maxLength": 0}, object{"format": "date-time"}},
			"description": "When the command was given: relative times count from then."},
		dataType: object{
			"description": "If there is data: application/json or another type of JSON, with parameters or without."},
		ifGeneration: object{"type": []string{"integer", "string", "null"}, "minimum": 1,
			"maximum": uint64(1<<64 - 1), "pattern": "^(0*[1-9][0-9]{0,19})?$",
			"description": "Only at this generation of the job; of a put or a delete."},
		"data_base64": object{"type": []string{"string", "null"}, "pattern": base64Text,
			"contentEncoding": "base64", "contentMediaType": "application/json",
			"description": "In place of data: the same JSON, in base64."},
	}
}

// having is the schema of an object that has a member of a schema.
func having(name string, of object) object {
	return object{"required": []string{name}, "properties": object{name: of}}
}

// kind is the schema of what is different in one type of event.
func kind(typ, about string) object {
	return object{"title": typ, "description": about, "required": []string{eventType},
		"properties": object{eventType: object{"const": typ}}}
}

// deletes is the schema of what is different in a delete.
func deletes(name any) object {
	k := kind(JobDelete, "Delete the job; that there is none is no error. It has no data.")
	members := k["properties"].(object) //nolint:forcetypeassert // kind's
	members["data"] = object{"enum": []any{nil, object{}}}
	members["data_base64"] = object{"enum": []any{nil, "", "bnVsbA==", "e30="}} // null and {}
	members[subject] = nameOf(name)
	k["allOf"] = []any{having(subject, present)}
	return k
}

// nameOf is what the API says of a job's name, for a subject.
func nameOf(name any) object {
	of := object{}
	for _, rule := range []string{"maxLength", "pattern"} {
		of[rule] = name.(object)[rule] //nolint:forcetypeassert // it is a schema
	}
	return of
}

// description is what the REST API says of itself.
type description struct {
	paths   map[string]map[string]json.RawMessage
	schemas map[string]any
	defs    object // what is used of the schemas
}

func describe(openAPI []byte) (*description, error) {
	var api struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(openAPI, &api); err != nil {
		return nil, fmt.Errorf("the description of the REST API: %w", err)
	}
	return &description{paths: api.Paths, schemas: api.Components.Schemas, defs: object{}}, nil
}

// body is the schema of a request's body.
func (d *description) body(method, path string) (object, error) {
	var call struct {
		RequestBody struct {
			Content map[string]struct{ Schema any }
		}
	}
	if err := json.Unmarshal(d.paths[path][method], &call); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	body, is := d.within(call.RequestBody.Content["application/json"].Schema).(object)
	if !is {
		return nil, fmt.Errorf("%s %s: it has no body", method, path)
	}
	return body, nil
}

const refPrefix = "#/components/schemas/"

// within is a schema of the API with its references into defs, where it puts what they name, and with what
// that description leaves out: see [spellings] and [asText].
func (d *description) within(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(object, len(v))
		for name, value := range v {
			if ref, is := value.(string); is && name == "$ref" {
				ref = strings.TrimPrefix(ref, refPrefix)
				out[name] = "#/$defs/" + ref
				if d.defs[ref] == nil {
					d.defs[ref] = object{} // it may name itself
					d.defs[ref] = d.within(d.schemas[ref])
				}
				continue
			}
			out[name] = d.within(value)
		}
		spellings(out)
		asText(out)
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = d.within(v[i])
		}
		return out
	}
	return v
}
