package outbox_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// itRefusesWhatTheDescriptionRefuses: many values for each field of a job, of all kinds of targets, are shown to the
// function, to the description and to what a node does. The function takes what the node takes, and refuses what
// the description refuses.
func itRefusesWhatTheDescriptionRefuses(t *testing.T, s *realserver.Postgres) {
	c := session(t, installed(t, s))
	job := jobSchema(t)
	refused, taken := 0, 0
	for _, text := range jobs(t) {
		described := describes(t, job, text)
		node, function := taking(text), putsIn(t, c, text)
		switch {
		case node == nil && function != nil:
			t.Errorf("%.200s\n\tthe node takes it, the function says %v", text, function)
		case described != nil && node != nil && function == nil:
			t.Errorf("%.200s\n\tthe function takes it, the description does not: %v", text, described)
		case function != nil:
			refused++
		default:
			taken++
		}
	}
	if refused < 200 || taken < 50 {
		t.Errorf("%d refused and %d taken: this test looks at too few", refused, taken)
	}
}

// jobs are jobs of each kind of target, each with one other value.
func jobs(t *testing.T) (all []string) {
	t.Helper()
	const once = `"due_time": "1h", "target": `
	bases := map[string]string{
		"worker": `{"queue": "q"}`, "http": `{"url": "http://x", "headers": {"a": "b"}, "method": ""}`,
		"kafka": `{"cluster": "c", "topic": "t", "key": "k", "await_completion": false}`,
		"amqp":  `{"broker": "b", "exchange": "e", "routing_key": "r"}`,
		"nats":  `{"server": "n", "subject": "s"}`, "redis": `{"server": "r", "stream": "s"}`,
		"dapr": `{"app_id": "a", "actor_type": "", "actor_id": "", "concurrency_key": ""}`,
	}
	for _, kind := range slices.Sorted(maps.Keys(bases)) {
		name := ""
		if kind == "dapr" {
			name = `"name": "dapr/app/a/b", `
		}
		all = append(all, others(t, `{`+name+once+`{"`+kind+`": `+bases[kind]+`}}`, "target")...)
	}
	whole := `{"schedule": "@daily", "target": {"worker": {"queue": "q"}}, "timeout": "1s", "lease": "1s", "jitter": "1s",
		"catch_up_window": "1h", "catch_up_limit": 3, "misfire": "all", "concurrency_key": "k", "content_type": "text/plain",
		"data_base64": "AA==", "depends_on": ["a"], "except": ["c"], "only": ["c"], "dst": "safe", "overlap": "skip",
		"history": {"runs": 3, "keep": "1h", "no_results": true}, "labels": {"a": "b"}, "metadata": {"a": "b"}, "note": "n",
		"paused": true, "priority": "low", "repeats": 3, "payload": null, "name": "n", "namespace": "ns"`
	for _, policy := range []string{`"drop": {}`, `"constant": {"interval": "1s", "max_retries": 3}`,
		`"schedule": {"cron": "@daily", "max_retries": 3}`,
		`"exponential": {"initial": "1s", "max": "1m", "jitter": "1s", "factor": 2, "max_retries": 3}`} {
		base := whole + `, "failure_policy": {` + policy + `, "on_exhausted": "drop", "pause_after": 3}}`
		all = append(all, others(t, base, "failure_policy")...)
		if strings.HasPrefix(policy, `"drop"`) {
			all = append(all, others(t, base, "")...)
		}
	}
	return all
}

// others are objects with one member below one at the top exchanged for another value, or taken away.
func others(t *testing.T, base, below string) (all []string) {
	t.Helper()
	values := []any{"", " ", "abc", "a b", "a\u0001", "-1s", "1.5h", "PT1H", "P", "a:b", "a/../b", "3", "TRACE", "?", nil, true, -1, 0,
		2, 1.5, 10001, 65536, 1000001, strings.Repeat("x", 64), strings.Repeat("x", 128), strings.Repeat("x", 250),
		strings.Repeat("x", 256), strings.Repeat("x", 513), strings.Repeat("x", 8193), []any{}, []any{"a", "a"}, []any{""},
		[]any{"a\u0001"}, []any{1}, map[string]any{}, map[string]any{"a b": "c"}, map[string]any{"a": "\u0001"}, map[string]any{"": "a"}}
	many := make([]any, 17)
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	values = append(values, many)
	var root map[string]any
	if err := json.Unmarshal([]byte(base), &root); err != nil {
		t.Fatal(err)
	}
	add := func() {
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	var walk func(in map[string]any)
	walk = func(in map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			was := in[name]
			if within, is := was.(map[string]any); is {
				walk(within)
			}
			for _, v := range values {
				in[name] = v
				add()
			}
			delete(in, name)
			add()
			in[name] = was
		}
	}
	add()
	if within, is := root[below].(map[string]any); is {
		walk(within)
	} else {
		walk(root)
	}
	return all
}

// jobSchema is the description of a job that is put.
func jobSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := ingest.Schema() // it has the schemas of the description
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { // what JavaScript writes \u0000 is \x{0000} here
		return regexp.Compile(regexp.MustCompile(`\\u([0-9a-f]{4})`).ReplaceAllString(pattern, `\x{$1}`))
	})
	if err := c.AddResource("event.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("event.json#/$defs/JobInput")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// describes is what the description says of a job.
func describes(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

// taking is what a node does with a job.
func taking(text string) error {
	var m pb.Job
	if _, err := httpapi.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	job, err := wire.JobFromProto(&m)
	if err != nil {
		return err
	}
	return job.Validate(carillon.Bounds{})
}

// putsIn is what the function says.
func putsIn(t *testing.T, c *pgx.Conn, text string) error {
	t.Helper()
	_, err := c.Exec(t.Context(), "SELECT carillon.put_job($1::text::jsonb)", text)
	return err
}
