package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// document is what the tests look at of the OpenAPI document.
type document struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct {
		Schemas   map[string]documentSchema
		Responses map[string]json.RawMessage
	}
}

type operation struct {
	OperationID string
	Parameters  []struct {
		Name, In string
		Required bool
		Schema   documentSchema
	}
	RequestBody struct {
		Required bool
		Content  map[string]struct{ Schema documentSchema }
	}
	Responses map[string]json.RawMessage
}

type documentSchema struct {
	Ref           string `json:"$ref"`
	Enum          []any
	Properties    map[string]documentSchema
	PropertyNames *documentSchema
	Required      []string
	Minimum       *float64
	Maximum       *float64
	MaxLength     int
	MaxItems      int
	MaxProperties int

	AdditionalProperties json.RawMessage
}

func readDocument(t *testing.T) document {
	t.Helper()
	w := send(api(t, &echo{}, Options{}), "GET /openapi.json", "")
	var d document
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %s", err, w.Header().Get("Content-Type"))
	}
	return d
}

// TestOpenAPIHasEveryCall: the document's paths are the routes, and no others.
func TestOpenAPIHasEveryCall(t *testing.T) {
	d := readDocument(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("it is OpenAPI %s", d.OpenAPI)
	}
	var want []string
	for _, rt := range allRoutes() {
		var path strings.Builder
		for _, s := range rt.segments {
			path.WriteString("/" + s.word)
			if s.field != "" {
				path.WriteString("{" + s.field + "}")
			}
		}
		if rt.verb != "" {
			path.WriteString(":" + rt.verb)
		}
		want = append(want, rt.method+" "+path.String())
	}
	var got []string
	for path, methods := range d.Paths {
		for method := range methods {
			if strings.HasPrefix(path, "/v1/") {
				got = append(got, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("routes\n%s\ndocument\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// TestOpenAPIHasEveryField: a schema has the fields of its message under the names that REST writes, and
// those that are always written are required.
func TestOpenAPIHasEveryField(t *testing.T) {
	for name, schema := range readDocument(t).Components.Schemas {
		mt, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("carillon.v1." + name))
		if err != nil || name == "Problem" {
			continue // an enum, what is sent, or what problem.go writes
		}
		want := map[string]bool{}
		for field := range membersFor(mt.Descriptor()) {
			if field == strings.ToLower(field) && !strings.Contains(field, "Base64") {
				want[field] = true
			}
		}
		// of two spellings that are equal in lower case there is one
		for i := range mt.Descriptor().Fields().Len() {
			want[string(mt.Descriptor().Fields().Get(i).Name())] = true
		}
		got := map[string]bool{}
		for field := range schema.Properties {
			got[field] = true
		}
		if !maps.Equal(want, got) {
			t.Errorf("%s has the fields %v, and in the document %v", name, want, got)
		}
		var empty map[string]any
		if err := json.Unmarshal(Marshal(mt.New().Interface()), &empty); err != nil {
			t.Fatal(err)
		}
		if written := slices.Sorted(maps.Keys(empty)); !slices.Equal(written, schema.Required) {
			t.Errorf("%s: %v are always written, and in the document %v", name, written, schema.Required)
		}
	}
}

// TestOpenAPIHasEveryWord: an enum has the words that REST writes, each with its meaning.
func TestOpenAPIHasEveryWord(t *testing.T) {
	n := 0
	for name, schema := range readDocument(t).Components.Schemas {
		et, err := protoregistry.GlobalTypes.FindEnumByName(protoreflect.FullName("carillon.v1." + name))
		if err != nil {
			continue
		}
		n++
		var got []string
		for _, w := range schema.Enum {
			got = append(got, w.(string))
		}
		if list := wordsFor(et.Descriptor()).list; strings.Join(got, ", ") != list {
			t.Errorf("%s is one of %s, and in the document of %v", name, list, got)
		}
	}
	if n == 0 {
		t.Error("there are no enums")
	}
}

// TestOpenAPIHasEveryStatus: whatever kind of error a call ends with, its status is documented.
func TestOpenAPIHasEveryStatus(t *testing.T) {
	d := readDocument(t)
	missing := map[int]int{}
	for path, methods := range d.Paths {
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		for method, op := range methods {
			for k := range carillon.DataLoss + 1 {
				status := wire.HTTPStatus(k)
				// nobody is there to see it
				if _, ok := op.Responses[strconv.Itoa(status)]; ok || k == carillon.Canceled {
					continue
				}
				missing[status]++
				if status != http.StatusNotFound && (method != "get" || status != http.StatusConflict) {
					t.Errorf("%s does not document %d", op.OperationID, status)
				}
			}
		}
	}
	if missing[http.StatusNotFound] > 33 {
		t.Errorf("%d calls document no 404", missing[http.StatusNotFound])
	}
}

// TestOpenAPIHasTheLimits: the ranges of the document are those of the code.
func TestOpenAPIHasTheLimits(t *testing.T) {
	d := readDocument(t)
	lim := carillon.DefaultBounds()
	of := func(schema, field string) documentSchema {
		s, ok := d.Components.Schemas[schema].Properties[field]
		if !ok {
			t.Fatalf("there is no %s.%s", schema, field)
		}
		return s
	}
	body := func(path, method, field string) documentSchema {
		s, ok := d.Paths[path][method].RequestBody.Content["application/json"].Schema.Properties[field]
		if !ok {
			t.Fatalf("there is no %s in the body of %s %s", field, method, path)
		}
		return s
	}
	const ns = "/v1/namespaces/{namespace}"
	limits := body("/v1/namespaces/{name}", "put", "concurrency_limits")
	var limit documentSchema
	if err := json.Unmarshal(limits.AdditionalProperties, &limit); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"name", of("JobInput", "name").MaxLength, carillon.MaxName},
		{"namespace", of("JobInput", "namespace").MaxLength, carillon.MaxNamespace},
		{"schedule", of("JobInput", "schedule").MaxLength, lim.Schedule},
		{"note", of("JobInput", "note").MaxLength, lim.Note},
		{"labels", of("JobInput", "labels").MaxProperties, lim.Labels},
		{"label key", of("JobInput", "labels").PropertyNames.MaxLength, carillon.MaxLabelKey},
		{"content_type", of("JobInput", "content_type").MaxLength, carillon.MaxContentType},
		{"depends_on", of("JobInput", "depends_on").MaxItems, carillon.MaxDependsOn},
		{"concurrency_key", of("JobInput", "concurrency_key").MaxLength, carillon.MaxConcurrencyKey},
		{"catch_up_limit", int(*of("JobInput", "catch_up_limit").Maximum), carillon.MaxCatchUp},
		{"history.runs", int(*of("HistoryInput", "runs").Maximum), carillon.MaxHistoryRuns},
		{"max_retries", int(*of("ExponentialPolicyInput", "max_retries").Maximum), carillon.MaxRetries},
		{"queue", of("WorkerTargetInput", "queue").MaxLength, carillon.MaxName},
		{"url", of("HttpTargetInput", "url").MaxLength, lim.URL},
		{"progress.message", of("ProgressInput", "message").MaxLength, carillon.MaxProgressMessage},
		{"batch", body(ns+"/jobs:batch", "post", "jobs").MaxItems, carillon.MaxBatch},
		{"rate", int(*body(ns+"/jobs/{name}:backfill", "post", "rate").Maximum), carillon.MaxBackfillRate},
		{"count", int(*body("/v1/schedules:preview", "post", "count").Maximum), carillon.MaxBatch},
		{"concurrency_limits", limits.MaxProperties, carillon.MaxLimits},
		{"limit", int(*limit.Maximum), carillon.MaxLimit},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d in the document, %d in the code", c.what, c.got, c.want)
		}
	}
}
