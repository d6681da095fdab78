package ingest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

var now = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func config() *Config { return &Config{Namespace: "shop", Remember: time.Hour} }

// whole is an event in structured mode, with more or other members.
func whole(members string) *broker.Delivery {
	return &broker.Delivery{ContentType: "application/cloudevents+json", Data: []byte(
		`{"specversion": "1.0", "id": "1", "source": "/s"` + members + `}`)}
}

// headers is one in binary mode.
func headers(contentType, data string, attributes ...string) *broker.Delivery {
	d := &broker.Delivery{ContentType: contentType, Data: []byte(data), Headers: []broker.Header{
		{Name: "ce-specversion", Value: "1.0"}, {Name: "ce-id", Value: "1"}, {Name: "ce-source", Value: "/s"}}}
	for i := 0; i < len(attributes); i += 2 {
		d.Headers = append(d.Headers, broker.Header{Name: "ce-" + attributes[i], Value: attributes[i+1]})
	}
	return d
}

const (
	putType    = `, "type": "com.carillonhq.job.put", "subject": "a"`
	createType = `, "type": "com.carillonhq.job.create"`
	deleteType = `, "type": "com.carillonhq.job.delete"`
	doneType   = `, "type": "com.carillonhq.run.complete"`
)

// wrongEvents are events, and the field and a part of the text of the error.
var wrongEvents = []struct {
	d     *broker.Delivery
	field string
	text  string
}{
	{&broker.Delivery{}, "specversion", "no CloudEvent"},
	{&broker.Delivery{ContentType: ";"}, "content-type", "no media type"},
	{&broker.Delivery{ContentType: "application/cloudevents-batch+json"}, "content-type", "one event"},
	{&broker.Delivery{ContentType: "application/cloudevents+json", Data: []byte("[]")}, "", "no JSON object"},
	{&broker.Delivery{ContentType: "application/cloudevents+json", Data: []byte("{\"\xff\": 1}")}, "", "UTF-8"},
	{whole(`, "id": ""`), "id", "missing"},
	{whole(`, "source": null`), "source", "missing"},
	{whole(`, "specversion": "0.3"`), "specversion", "not 1.0"},
	{whole(``), "type", "missing"},
	{whole(`, "type": {}`), "type", "a text"},
	{whole(`, "type": "x"`), "type", "is not one of"},
	{whole(putType), "data", "missing"},
	{whole(putType + `, "data": ` + aJob + `, "data_base64": "e30="`), "data_base64", "one of them"},
	{whole(putType + `, "data_base64": "?"`), "data_base64", "base64"},
	{whole(putType + `, "data": ` + aJob + `, "datacontenttype": "text/plain"`), "datacontenttype", "JSON"},
	{whole(putType + `, "data": {"name": "b"}`), "name", "not the event's subject"},
	{whole(putType + `, "data": {"namespace": "b"}`), "namespace", `not "shop"`},
	{whole(putType + `, "data": {"due_time": 1}`), "due_time", ""},
	{whole(putType + `, "time": "noon"`), "time", "no time"},
	{whole(putType + `, "ifgeneration": 0`), "ifgeneration", "no number"},
	{whole(`, "type": "com.carillonhq.job.put", "data": ` + aJob), "subject", "missing"},
	{whole(createType + `, "subject": "a", "data": ` + aJob + `, "ifgeneration": 2`), "ifgeneration", "only"},
	{whole(deleteType + `, "subject": "a", "data": {"x": 1}`), "data", "has none"},
	{whole(deleteType), "subject", "missing"},
	{whole(`, "type": "com.carillonhq.job.trigger", "subject": "a", "data": {"overlap": "x"}`), "overlap", ""},
	{whole(doneType + `, "data": {}`), "token", "missing"},
	{whole(doneType + `, "data": {"token": "t"}`), "outcome", ""},
	{whole(doneType + `, "subject": "r", "data": {"token": "t", "id": "s"}`), "id", "subject"},
	{headers("text/plain", "x", "type", JobPut, "subject", "a"), "content-type", "must be JSON"},
	{headers("", "", "type", JobPut, "type", JobPut), "type", "twice"},
	{headers("", "", "type", strings.Repeat("x", maxAttribute+1)), "type", "longer"},
}

func TestWrongEventsSayWhatIsWrong(t *testing.T) {
	for _, c := range wrongEvents {
		e, err := parse(c.d)
		if err == nil {
			_, err = config().command(e, time.Time{}, now)
		}
		got, ok := errors.AsType[*carillon.Error](err)
		if !ok || got.Kind != carillon.InvalidArgument || got.Field != c.field ||
			!strings.Contains(got.Message, c.text) {
			t.Errorf("%s %v\n\tsays %v\n\tnot  %s: …%s…", c.d.Data, c.d.Headers, err, c.field, c.text)
		}
	}
}

func TestEventsAreCommands(t *testing.T) {
	job := `{"due_time": "1h", "target": {"worker": {"queue": "q"}}}`
	for name, d := range map[string]*broker.Delivery{
		"structured": whole(putType + `, "time": "2030-01-31T11:00:00Z", "ifgeneration": 3, "data": ` + job),
		"binary": headers("application/json; charset=utf-8", job, "type", JobPut, "subject", "a", "time",
			"2030-01-31T12:00:00+01:00", "ifgeneration", "3"),
	} {
		e, err := parse(d)
		if err != nil {
			t.Fatal(name, err)
		}
		c, err := config().command(e, time.Time{}, now)
		if err != nil {
			t.Fatal(name, err)
		}
		if c.Key != (carillon.Key{Namespace: "shop", Name: "a"}) || c.Job == nil ||
			c.Job.Target.Worker.Queue != "q" || c.IfGeneration != 3 || c.IfAbsent || c.KeepFor != time.Hour ||
			!c.SeenAt.Equal(now.Add(-time.Hour)) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	e, err := parse(whole(createType + `, "data": {"name": "b", "namespace": "shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := config().command(e, now.Add(-time.Minute), now); err != nil || c.Key.Name != "b" ||
		!c.IfAbsent || !c.SeenAt.Equal(now.Add(-time.Minute)) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := config().command(e, now.Add(time.Minute), now); err != nil || !c.SeenAt.Equal(now) {
		t.Errorf("an event of the future is seen at %v, %v", c.SeenAt, err)
	}
}

// TestRequestsTellEventsApart by their source and id, wherever one ends and the other begins.
func TestRequestsTellEventsApart(t *testing.T) {
	of := func(source, id string) string { return requestOf(&event{source: source, id: id}) }
	first := of("/s", "1")
	if again := of("/s", "1"); again != first || of("/s", "1") == of("/s1", "") || of("/s", "1") == of("/s", "2") ||
		of("/s", "1") == of("/t", "1") {
		t.Error("events are taken for others")
	}
}
