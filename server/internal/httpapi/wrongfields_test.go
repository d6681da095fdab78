package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// wrong is a job with one wrong field.
type wrong struct {
	field string // what the answer must name
	job   string // the job in JSON; over gRPC it is sent as a message, if it can be one
}

// rightTarget makes a job of which only the field at hand is wrong.
const rightTarget = `"target":{"worker":{"queue":"q"}}`

func with(field, rest string) wrong { return wrong{field, "{" + rightTarget + "," + rest + "}"} }

func withTarget(field, target string) wrong { return wrong{field, `{"target":` + target + "}"} }

func withPolicy(field, policy string) wrong {
	return with("failure_policy."+field, `"failure_policy":`+policy)
}

func long(n int) string { return strings.Repeat("x", n) }

// wrongJobs has every field of a job wrong in turn, some in several ways.
func wrongJobs() []wrong {
	return []wrong{
		with("schedule", `"schedule":"61 * * * *"`),
		with("schedule", `"schedule":"0 0 30 2 *"`),
		with("schedule", `"schedule":"@every"`),
		with("schedule", `"schedule":7`),
		with("schedule", `"schedule":"`+long(2000)+`"`),
		with("time_zone", `"time_zone":"Mars/Base"`),
		with("time_zone", `"time_zone":"Local"`),
		with("dst", `"dst":"never"`),
		with("due_time", `"due_time":"soon"`),
		with("due_time", `"due_time":"2026-02-30T00:00:00Z"`),
		with("due_time", `"due_time":"-5s"`),
		with("repeats", `"repeats":-1`),
		with("repeats", `"repeats":3`),
		with("time_zone", `"time_zone":"Europe/London","due_time":"90m"`),
		with("time_zone", `"time_zone":"UTC","due_time":"PT1H"`),
		with("dst", `"dst":"literal"`),
		with("overlap", `"overlap":"skip"`),
		with("misfire", `"misfire":"all","due_time":"1h"`),
		with("catch_up_limit", `"catch_up_limit":5`),
		with("catch_up_window", `"catch_up_window":"1h"`),
		with("ttl", `"ttl":"later"`),
		with("ttl", `"ttl":"2001-01-01T00:00:00Z"`),
		with("jitter", `"jitter":"soon"`),
		with("jitter", `"jitter":"-5s"`),
		with("data", `"data":"`+long(1<<20)+`"`),
		with("data", `"data":1,"data_base64":"AA=="`),
		with("data_base64", `"data_base64":"%"`),
		with("payload", `"payload":"x"`),
		with("payload", `"payload":7`),
		with("payload", `"payload":"2026-11-28/`+strings.Repeat("0a", 32)+`/0"`),
		with("payload", `"payload":"2026-11-28/`+strings.Repeat("0a", 32)+`/7","data":1`),
		with("content_type", `"content_type":"text"`),
		with("content_type", `"content_type":"a/b\nc"`),
		with("metadata", `"metadata":{"":"x"}`),
		with("metadata", `"metadata":{"k":"`+long(70<<10)+`"}`),
		with("metadata.k", `"metadata":{"k":1}`),
		with("labels", `"labels":{"a=b":"x"}`),
		with("labels", `"labels":{"a":"`+long(300)+`"}`),
		{"target", `{}`},
		withTarget("target", `{}`),
		withTarget("target", `{"worker":{"queue":"q"},"http":{"url":"http://x"}}`),
		withTarget("target.worker.queue", `{"worker":{}}`),
		withTarget("target.worker.queue", `{"worker":{"queue":"a\nb"}}`),
		withTarget("target.http.url", `{"http":{}}`),
		withTarget("target.http.url", `{"http":{"url":"ftp://x"}}`),
		withTarget("target.http.url", `{"http":{"url":"http://u:p@x"}}`),
		withTarget("target.http.method", `{"http":{"url":"http://x","method":"JUMP"}}`),
		withTarget("target.http.headers", `{"http":{"url":"http://x","headers":{"Host":"y"}}}`),
		withTarget("target.http.headers", `{"http":{"url":"http://x","headers":{"A":"b\nc"}}}`),
		withTarget("target.http.verb", `{"http":{"url":"http://x","verb":"GET"}}`),
		withTarget("target.kafka", `{"kafka":{"cluster":"c","topic":"t"}}`),
		withTarget("target.amqp", `{"amqp":{"broker":"b","exchange":"e"}}`),
		withTarget("target.nats", `{"nats":{"server":"s","subject":"x"}}`),
		withTarget("target.redis", `{"redis":{"server":"s","stream":"x"}}`),
		withTarget("target.exec", `{"exec":{"artifact":"a"}}`),
		withPolicy("constant.interval", `{"constant":{"interval":"often"}}`),
		withPolicy("constant.interval", `{"constant":{"interval":"-1s"}}`),
		withPolicy("constant.interval", `{"constant":{}}`),
		withPolicy("constant.max_retries", `{"constant":{"interval":"1s","max_retries":-1}}`),
		withPolicy("constant.max_retries", `{"constant":{"interval":"1s","max_retries":4000000000}}`),
		withPolicy("schedule.cron", `{"schedule":{"cron":"* *"}}`),
		withPolicy("schedule.cron", `{"schedule":{}}`),
		withPolicy("exponential.initial", `{"exponential":{"initial":"x"}}`),
		withPolicy("exponential.factor", `{"exponential":{"factor":0.5}}`),
		withPolicy("exponential.max", `{"exponential":{"max":"1ms"}}`),
		withPolicy("exponential.jitter", `{"exponential":{"jitter":"-1s"}}`),
		withPolicy("on_exhausted", `{"on_exhausted":"forget"}`),
		withPolicy("on_exhausted", `{"drop":{},"on_exhausted":"dead"}`),
		with("failure_policy", `"failure_policy":{"drop":{},"constant":{}}`),
		withPolicy("linear", `{"linear":{}}`),
		with("timeout", `"timeout":"-1s"`),
		with("timeout", `"timeout":"9000h"`),
		with("lease", `"lease":"1ms"`),
		{"lease", `{"target":{"http":{"url":"http://x"}},"lease":"1m"}`},
		with("overlap", `"overlap":"sometimes"`),
		with("misfire", `"misfire":"maybe"`),
		with("catch_up_limit", `"catch_up_limit":-1`),
		with("catch_up_limit", `"catch_up_limit":2000000000`),
		with("catch_up_window", `"catch_up_window":"-1h"`),
		with("priority", `"priority":"first"`),
		with("concurrency_key", `"concurrency_key":"a\nb"`),
		with("concurrency_key", `"concurrency_key":"`+long(300)+`"`),
		with("depends_on", `"depends_on":"x"`),
		with("depends_on", `"depends_on":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]`),
		with("depends_on[0]", `"depends_on":["a:b"]`),
		with("depends_on[0]", `"depends_on":["wrong"]`),
		with("depends_on[1]", `"depends_on":["x","x"]`),
		with("depends_on[1]", `"depends_on":["x",".."]`),
		with("except", `"except":"x"`),
		with("except[0]", `"schedule":"@daily","except":["a/b"]`),
		with("except[1]", `"schedule":"@daily","except":["x","x"]`),
		with("except[0]", `"schedule":"@daily","except":[".."]`),
		with("except", `"except":["x"]`),
		with("only", `"only":{}`),
		with("only[0]", `"schedule":"@daily","only":["`+long(64)+`"]`),
		with("paused", `"paused":"yes"`),
		with("note", `"note":"`+long(5000)+`"`),
		with("history.runs", `"history":{"runs":-2}`),
		with("history.keep", `"history":{"keep":"long"}`),
		with("history.size", `"history":{"size":1}`),
		with("shedule", `"shedule":"@daily"`),
	}
}

// TestWrongFields: every field of a job wrong in turn, over REST and over gRPC: the answer names the field
// and says what is wrong with it, nothing is stored, and the node goes on.
func TestWrongFields(t *testing.T) {
	n := startNode(t)
	seen := map[string]bool{}
	for i, w := range wrongJobs() {
		seen[topLevel(w.field)] = true
		name := fmt.Sprintf("%s/%d", w.field, i)
		n.wantProblem(t, name, n.rest(t, "PUT", "/v1/namespaces/default/jobs/wrong", w.job), w.field)

		job := &pb.Job{}
		if _, err := httpapi.Unmarshal([]byte(w.job), job); err == nil {
			_, err := n.grpc.PutJob(t.Context(), &pb.PutJobRequest{Name: "wrong", Job: job})
			n.wantError(t, name, err, w.field)
		}
	}
	for _, w := range []struct{ field, namespace, name string }{
		{"namespace", "a.b", "x"}, {"namespace", long(64), "x"}, {"name", "default", "a//b"},
		{"name", "default", "/a"}, {"name", "default", "a:b"}, {"name", "default", "a\tb"},
		{"name", "default", long(513)}, {"name", "default", "a/../b"}, {"name", "default", "./a"},
		{"name", "default", ".."},
	} {
		path := "/v1/namespaces/" + url.PathEscape(w.namespace) + "/jobs/" + url.PathEscape(w.name)
		n.wantProblem(t, w.name, n.rest(t, "PUT", path, "{"+rightTarget+"}"), w.field)
		_, err := n.grpc.PutJob(t.Context(), &pb.PutJobRequest{Namespace: w.namespace, Name: w.name,
			Job: &pb.Job{Target: &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "q"}}}}})
		n.wantError(t, w.name, err, w.field)
		seen[w.field] = true
	}
	everyFieldSeen(t, seen)
	if r := n.rest(t, "GET", "/v1/namespaces/default/jobs", ""); !strings.Contains(r.body, `"jobs":[]`) {
		t.Errorf("something was stored: %s", r.body)
	}
	if r := n.rest(t, "GET", "/livez", ""); r.status != http.StatusOK {
		t.Errorf("the node does not live: %d", r.status)
	}
}

// topLevel is the field that a path within it begins with.
func topLevel(path string) string {
	return path[:len(path)-len(strings.TrimLeft(path, "abcdefghijklmnopqrstuvwxyz_"))]
}

// everyFieldSeen fails for a field of a job that was never wrong.
func everyFieldSeen(t *testing.T, seen map[string]bool) {
	t.Helper()
	fields := (&pb.Job{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !seen[name] && name != "status" {
			t.Errorf("no wrong %s was tried", name)
		}
	}
}

// answer is an answer over REST.
type answer struct {
	status int
	header http.Header
	body   string
}

// rest makes a call over REST.
func (n *node) rest(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, strings.TrimSpace(string(text))}
}

func (n *node) wantProblem(t *testing.T, what string, a answer, field string) {
	t.Helper()
	var p struct{ Code, Field, Detail string }
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%s: %v in %d %s", what, err, a.status, a.body)
	}
	if a.status != http.StatusBadRequest || p.Code != "invalid_argument" || p.Field != field || p.Detail == "" {
		t.Errorf("%s: REST answers %d %s; want the field %s", what, a.status, a.body, field)
	}
}

func (n *node) wantError(t *testing.T, what string, err error, field string) {
	t.Helper()
	for _, d := range status.Convert(err).Details() { // as a client that knows google.rpc alone reads it
		if b, ok := d.(*errdetails.BadRequest); ok && b.GetFieldViolations()[0].GetField() != field {
			t.Errorf("%s: gRPC says %v; want the field %s", what, b, field)
		}
	}
	e, ok := errors.AsType[*carillon.Error](wire.ErrorFromStatus(err))
	if !ok || e.Kind != carillon.InvalidArgument || e.Field != field || e.Message == "" {
		t.Errorf("%s: gRPC answers %v; want the field %s", what, err, field)
	}
}
