package ingest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

const (
	triggerType = `, "type": "com.carillonhq.job.trigger"`
	aJob        = `{"due_time": "1h", "target": {"worker": {"queue": "q"}}}`
	aJobBase64  = "eyJkdWVfdGltZSI6ICIxaCIsICJ0YXJnZXQiOiB7IndvcmtlciI6IHsicXVldWUiOiAicSJ9fX0="
)

// rightEvents are members of events that are taken, besides those of [whole].
var rightEvents = []string{
	putType + `, "data": ` + aJob,
	putType + `, "data_base64": "` + aJobBase64 + `"`,
	putType + `, "data": null, "data_base64": "` + aJobBase64[:6] + `\r\n` + aJobBase64[6:] + `"`,
	putType + `, "data_base64": null, "data": ` + aJob,
	putType + `, "datacontenttype": "application/json; charset=utf-8", "data": ` + aJob,
	putType + `, "datacontenttype": "application/vnd.job+JSON", "data": ` + aJob,
	putType + `, "datacontenttype": "", "data": ` + aJob,
	putType + `, "datacontenttype": null, "time": null, "ifgeneration": null, "traceparent": "00", "data": ` + aJob,
	putType + `, "time": "2030-01-31T12:00:00.5+01:00", "ifgeneration": "03", "data": ` + aJob,
	putType + `, "time": "", "ifgeneration": 18446744073709551615, "data": ` + aJob,
	putType + `, "data": {"dueTime": "1h", "dataBase64": "AA==", "target": {"nats": {"server": "n", "subject": "s",
		"awaitCompletion": true}}, "failurePolicy": {"constant": {"maxRetries": "3"}}}`,
	putType + `, "data": {"due_time": null, "dueTime": "1h", "name": "a", "namespace": "shop", "status": {"generation": 7},
		"target": {"http": {"url": "https://example.com"}}}`,
	`, "type": "com.carillonhq.job.put", "subject": null, "data": {"name": "b", "target": {"worker": {"queue": "q"}}}`,
	`, "type": "com.carillonhq.job.put", "subject": "", "data": {"name": "b", "target": {"worker": {"queue": "q"}}}`,
	`, "type": "com.carillonhq.job.put", "subject": 42, "data": {"target": {"worker": {"queue": "q"}}}`,
	putType + `, "id": 7.50, "source": true, "data": ` + aJob,
	createType + `, "subject": "a/b", "data": ` + aJob,
	createType + `, "ifgeneration": "", "data": {"name": "b", "target": {"worker": {"queue": "q"}}}`,
	deleteType + `, "subject": "a"`,
	deleteType + `, "subject": "a", "data": {}, "ifgeneration": "3"`,
	deleteType + `, "subject": "a", "data": null, "datacontenttype": "text/plain"`,
	deleteType + `, "subject": "a", "data_base64": "e30="`,
	deleteType + `, "subject": true`,
	triggerType + `, "subject": "a"`,
	triggerType + `, "subject": "a", "data": {"overlap": "skip", "data": [1], "contentType": "application/json"}`,
	triggerType + `, "data": {"name": "a", "namespace": "shop"}`,
	triggerType + `, "subject": "a", "data": null`,
	doneType + `, "data": {"token": "t", "outcome": "success", "id": "r", "namespace": "shop"}`,
	doneType + `, "subject": null, "data": {"token": "t", "outcome": "success"}`,
	doneType + `, "subject": "r", "data": {"token": "t", "outcome": "failure", "retryAfter": "1s", "permanent": false}`,
	doneType + `, "subject": "r", "data": {"token": "t", "outcome": "progress", "progress": {"percent": 50}}`,
}

// wrongMembers are members of events that are refused, besides [wrongEvents].
var wrongMembers = []string{
	putType + `, "ifgeneration": "x", "data": ` + aJob,
	putType + `, "ifgeneration": true, "data": ` + aJob,
	putType + `, "ifgeneration": -1, "data": ` + aJob,
	putType + `, "data": null`,
	putType + `, "id": null, "data": ` + aJob,
	putType + `, "id": "` + strings.Repeat("1", maxAttribute+1) + `", "data": ` + aJob,
	putType + `, "source": [], "data": ` + aJob,
	putType + `, "specversion": 1, "data": ` + aJob,
	putType + `, "data_base64": ""`,
	putType + `, "data_base64": "e30"`,
	putType + `, "data": {"due_time": "1h"}`,
	putType + `, "data": {"target": {"kafka": {}}}`,
	putType + `, "data": {"target": {"worker": {"queue": "q"}}, "due_time": "1h", "dueTime": "2h"}`,
	putType + `, "data": {"target": {"worker": {"queue": "q"}}, "data": 1, "dataBase64": "AA=="}`,
	putType + `, "data": {"target": {"worker": {"queue": "q"}}, "catchUpLimit": -1, "schedule": "@daily"}`,
	`, "type": "com.carillonhq.job.put", "subject": "a:b", "data": ` + aJob,
	`, "type": "com.carillonhq.job.put", "subject": "", "data": ` + aJob,
	`, "type": "com.carillonhq.job.put", "subject": null, "data": {"name": "", "target": {"worker": {"queue": "q"}}}`,
	`, "type": "com.carillonhq.job.put", "subject": [], "data": ` + aJob,
	createType + `, "subject": "a"`,
	deleteType + `, "subject": "a:b"`,
	deleteType + `, "subject": null`,
	deleteType + `, "subject": "a", "data": 0`,
	deleteType + `, "subject": "a", "data_base64": "AAAA"`,
	triggerType,
	triggerType + `, "subject": "a", "ifgeneration": 1`,
	triggerType + `, "subject": "a", "data": {"x": 1}`,
	triggerType + `, "subject": "a", "data": {}, "datacontenttype": "application/xml"`,
	doneType + `, "data": {"token": "t", "outcome": "success"}, "ifgeneration": 1`,
	doneType + `, "data": {"token": "", "outcome": "success"}`,
	doneType + `, "subject": "r"`,
}

// beyond are wrong events that the schema takes: what is wrong no schema can say.
var beyond = []string{
	putType + `, "data": {"name": "b", "target": {"worker": {"queue": "q"}}}`,
	putType + `, "data": {"namespace": "b", "target": {"worker": {"queue": "q"}}}`,
	putType + `, "data_base64": "e30="`,
	putType + `, "data": {"target": {"worker": {"queue": "q"}}, "schedule": "x y"}`,
	putType + `, "data": {"target": {"worker": {"queue": "q"}}, "schedule": "@daily", "catch_up_limit": "10001"}`,
	triggerType + `, "subject": "a", "data": {"name": "b"}`,
	doneType + `, "subject": "r", "data": {"token": "t", "outcome": "success", "id": "s"}`,
}

// narrow are right events that the schema refuses: to it 1.0 and 1 are the same number, of which one is right, and
// base64 of nothing may be broken into lines.
var narrow = []string{
	deleteType + `, "subject": "a", "specversion": 1.0`,
	deleteType + `, "subject": "a", "data_base64": "e3\n0="`,
}

// judged is what a node says of an event: whether it is a command, and one whose job is right.
func judged(d *broker.Delivery) error {
	e, err := parse(d)
	if err != nil {
		return err
	}
	c, err := config().command(e, time.Time{}, now)
	if err == nil && c.Job != nil {
		err = c.Job.Validate(carillon.Bounds{})
	}
	return err
}

// TestTheSchemaSaysWhatTheParserSays of each event, right and wrong, in structured mode.
func TestTheSchemaSaysWhatTheParserSays(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	agree := func(d *broker.Delivery, right, taken bool) {
		t.Helper()
		event, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.Data))
		if err != nil {
			t.Fatalf("%s: %v", d.Data, err)
		}
		says, of := judged(d), schema.Validate(event)
		if right != (says == nil) || taken != (of == nil) {
			t.Errorf("%s\n\tright: %t\n\tthe parser says: %v\n\tthe schema says: %v", d.Data, right, says, of)
		}
	}
	for _, members := range rightEvents {
		agree(whole(members), true, true)
	}
	for _, members := range wrongMembers {
		agree(whole(members), false, false)
	}
	n := 0
	for _, c := range wrongEvents {
		if c.d.ContentType == structuredType && c.text != "UTF-8" { // which is no JSON either
			agree(c.d, false, false)
			n++
		}
	}
	if n < 20 {
		t.Errorf("only %d wrong events are in structured mode", n)
	}
	for _, members := range narrow {
		agree(whole(members), true, false)
	}
	for _, members := range beyond {
		agree(whole(members), false, true)
	}
}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { // what JavaScript writes \u0000 is \x{0000} here
		return regexp.Compile(regexp.MustCompile(`\\u([0-9a-f]{4})`).ReplaceAllString(pattern, `\x{$1}`))
	})
	if err := c.AddResource("event.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("event.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
