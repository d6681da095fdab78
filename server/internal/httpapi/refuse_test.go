package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
)

// read reads a problem document.
func read(t *testing.T, what string, status int, contentType string, body []byte) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%s: %v in %s", what, err, body)
	}
	if contentType != "application/problem+json" || p.Status != status || p.Title == "" ||
		p.Type != "about:blank" || p.Detail == "" {
		t.Errorf("%s: not a whole problem document: %s %s", what, contentType, body)
	}
	return p
}

// TestRefused: what is refused before the service is asked, with status, code, field and some of the words.
func TestRefused(t *testing.T) {
	const job = "PUT /v1/namespaces/ns/jobs/x"
	for _, c := range []struct {
		request, body string
		status        int
		field, detail string
	}{
		{job, `{"shedule":"@daily"}`, 400, "shedule", "unknown field"},
		{job, `{"target":{"http":{"uri":"x"}}}`, 400, "target.http.uri", "unknown field"},
		{job, `{"target":{"http":{},"worker":{}}}`, 400, "target", "both http and worker"},
		{job, `{"failure_policy":{"drop":{},"constant":{}}}`, 400, "failure_policy", "both drop and constant"},
		{job, `{"schedule":"a","schedule":"b"}`, 400, "schedule", "given twice"},
		{job, `{"time_zone":"a","timeZone":"b"}`, 400, "time_zone", "given twice"},
		{job, `{"data":1,"data_base64":"AA=="}`, 400, "data", "given twice"},
		{job, `{"data_base64":"%"}`, 400, "data_base64", "base64"},
		{job, `{"data_base64":1}`, 400, "data_base64", "a string"},
		{job, `{"schedule":5}`, 400, "schedule", "a string"},
		{job, `{"paused":"yes"}`, 400, "paused", "true or false"},
		{job, `{"paused":1}`, 400, "paused", "true or false"},
		{job, `{"repeats":-1}`, 400, "repeats", "out of range 0"},
		{job, `{"repeats":"18446744073709551616"}`, 400, "repeats", "out of range"},
		{job, `{"repeats":1.5}`, 400, "repeats", "whole number"},
		{job, `{"repeats":1e-1}`, 400, "repeats", "whole number"},
		{job, `{"repeats":"1.0"}`, 400, "repeats", "whole number"},
		{job, `{"repeats":-1.0}`, 400, "repeats", "out of range 0"},
		{job, `{"repeats":1e30}`, 400, "repeats", "whole number"},
		{job, `{"repeats":true}`, 400, "repeats", "a number"},
		{job, `{"catch_up_limit":3000000000}`, 400, "catch_up_limit", "out of range"},
		{job, `{"failure_policy":{"exponential":{"factor":"2"}}}`, 400,
			"failure_policy.exponential.factor", "a number"},
		{job, `{"failure_policy":{"exponential":{"factor":1e999}}}`, 400,
			"failure_policy.exponential.factor", "out of range"},
		{job, `{"failure_policy":{"constant":{"max_retries":-1}}}`, 400,
			"failure_policy.constant.max_retries", "out of range"},
		{job, `{"overlap":"never"}`, 400, "overlap", "one of serial, skip, allow, replace"},
		{job, `{"overlap":1}`, 400, "overlap", "one of serial"},
		{job, `{"labels":["a"]}`, 400, "labels", "an object"},
		{job, `{"labels":{"a":1}}`, 400, "labels.a", "a string"},
		{job, `{"labels":{"a":"1","a":"2"}}`, 400, "labels.a", "given twice"},
		{job, `{"depends_on":"x"}`, 400, "depends_on", "a list"},
		{job, `{"depends_on":["x",1]}`, 400, "depends_on[1]", "a string"},
		{job, `{"target":"worker"}`, 400, "target", "an object"},
		{job, `[]`, 400, "", "must be an object"},
		{job, `null`, 400, "", "must be an object"},
		{job, "{\n \"a\": x}", 400, "", "line 2, column 7"},
		{job, `{} {}`, 400, "", "line 1, column 4"},
		{job, `{"note":"`, 400, "", "not JSON"},
		{job, "{\"note\":\"\xff\"}", 400, "", "UTF-8"},
		{job + "?force=true", `{}`, 400, "force", "unknown query parameter"},
		{job + "?name=y", `{}`, 400, "name", "unknown query parameter"},
		{job + "?if_absent=yes", `{}`, 400, "if_absent", "true or false"},
		{job + "?if_absent=", `{}`, 400, "if_absent", "true or false"},
		{job + "?if_generation=", `{}`, 400, "if_generation", "whole number"},
		{job + "?if_absent=true&if_absent=true", `{}`, 400, "if_absent", "given twice"},
		{job + "?a=%zz", `{}`, 400, "", "query"},
		{"GET /v1/namespaces/ns/jobs?pageSize=1&page_size=2", ``, 400, "page_size",
			"given twice, as pageSize and as page_size"},
		{"GET /v1/namespaces/ns/jobs:", ``, 404, "", "nothing at"},
		{job, `{"` + strings.Repeat("k", 1000) + `":1}`, 400, strings.Repeat("k", 256) + "…", "unknown field"},
		{"PATCH /v1/namespaces/ns/jobs/x?fields=note", `{}`, 400, "fields", "unknown query parameter"},
		{"GET /v1/namespaces/ns/jobs?phase=lost", ``, 400, "phase", "one of scheduled"},
		{"GET /v1/namespaces/ns/jobs?page_size=many", ``, 400, "page_size", "whole number"},
		{"POST /v1/namespaces/ns/jobs:batch", `{"jobs":[{},{"nam":"x"}]}`, 400, "jobs[1].nam", "unknown field"},
		{"POST /v1/namespaces/ns/jobs:batch", `{"jobs":[null]}`, 400, "jobs[0]", "an object"},
		{"POST /v1/namespaces/ns/jobs:batch", `{"namespace":"other"}`, 400, "namespace",
			`"other" in the body and "ns" in the path`},
		{"POST /v1/namespaces/ns/jobs/x:trigger?a=b", ``, 400, "a", "unknown query parameter"},
		{"POST /v1/namespaces/ns/jobs/x:resume", `{"catch_up":"yes"}`, 400, "catch_up", "true or false"},
		{"POST /v1/namespaces/ns/jobs/x:pause", `{"catch_up":true}`, 400, "catch_up", "unknown field"},
		{"POST /v1/namespaces/ns/jobs/x:skip", `{"n":2}`, 400, "n", "unknown field"},
		{"GET /v1/namespaces/ns/jobs/x:skip", ``, 405, "", "POST"},
		{"POST /v1/namespaces/ns/jobs/x:backfill", `{"from":"yesterday"}`, 400, "from", "RFC 3339"},
		{"POST /v1/namespaces/ns/jobs/x:backfill", `{"overlap":"twice"}`, 400, "overlap", "one of serial"},
		{"POST /v1/namespaces/ns/jobs/x:backfill", `{"rate":"1"}`, 400, "rate", "a number"},
		{"GET /v1/namespaces/ns/jobs/x:backfills?status=done", ``, 400, "status", "unknown query parameter"},
		{"DELETE /v1/namespaces/ns/backfills/b", ``, 405, "", "GET"},
		{"PUT /v1/namespaces/ns", `{"strict":"yes"}`, 400, "strict", "true or false"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":[1]}`, 400, "concurrency_limits", "an object"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":{"a":true}}`, 400, "concurrency_limits.a", "a number"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":{"a":1.5}}`, 400, "concurrency_limits.a", "whole number"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":{"a":null}}`, 400, "concurrency_limits.a", "a number"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":{"a":3000000000}}`, 400,
			"concurrency_limits.a", "out of range"},
		{"PUT /v1/namespaces/ns", `{"concurrency_limits":{"a":1,"a":2}}`, 400,
			"concurrency_limits.a", "given twice"},
		{"PUT /v1/namespaces/ns", `{"name":"other"}`, 400, "name", `"other" in the body and "ns" in the path`},
		{"POST /v1/namespaces/ns/runs/r:complete", `{"outcome":"progress","progress":{"percent":"50"}}`, 400,
			"progress.percent", "a number"},
		{"POST /v1/namespaces/ns/runs/r:complete", `{"outcome":"progress","progress":{"done":5}}`, 400,
			"progress.done", "unknown field"},
		{"POST /v1/namespaces/ns/runs/r:complete", `{"outcome":"reschedule","at":"1h"}`, 400, "at", "RFC 3339"},
		{"POST /v1/namespaces/ns/runs/r:complete", `{"outcome":"later"}`, 400, "outcome", "progress, reschedule"},
		{"POST /v1/schedules:preview", `{"from":"tomorrow"}`, 400, "from", "RFC 3339"},
		{"POST /v1/namespaces/ns/jobs/x:explode", ``, 404, "", "nothing at"},
		{"GET /v1/jobs", ``, 404, "", "nothing at"},
		{"GET /v1/namespaces/ns/jobs/", ``, 404, "", "nothing at"},
		{"GET /elsewhere", ``, 404, "", "nothing at"},
		{"GET /metrics", ``, 404, "", "nothing at"},
		{"POST /v1/namespaces/ns/jobs/x", ``, 405, "", "PUT, PATCH, GET, DELETE, HEAD"},
		{"GET /v1/namespaces/ns/jobs/x:trigger", ``, 405, "", "POST"},
		{"PUT /v1/namespaces/ns/runs/r1", ``, 405, "", "GET, HEAD"},
		{"POST /livez", ``, 405, "", "GET, HEAD"},
		{"POST /openapi.json", ``, 405, "", "GET, HEAD"},
	} {
		e := &echo{}
		w := send(api(t, e, Options{}), c.request, c.body)
		what := c.request + " " + c.body
		p := read(t, what, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != c.status || p.Field != c.field || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: status %d, field %q, detail %q; want %d, %q, %q", what, w.Code, p.Field, p.Detail,
				c.status, c.field, c.detail)
		}
		if e.asked != nil {
			t.Errorf("%s: reached the service", what)
		}
		if allow := w.Header().Get("Allow"); (w.Code == 405) != (allow != "") {
			t.Errorf("%s: Allow %q", what, allow)
		}
	}
}

// TestConditionGivenTwiceIsRefused: which of the two would hold?
func TestConditionGivenTwiceIsRefused(t *testing.T) {
	for _, c := range []struct{ header, one, two string }{
		{"If-Match", `"1"`, `"2"`},
		{"If-None-Match", "*", ""},
	} {
		e := &echo{}
		r := httptest.NewRequest(http.MethodPut, "/v1/namespaces/ns/jobs/x", strings.NewReader("{}"))
		r.Header[c.header] = []string{c.one, c.two}
		w := httptest.NewRecorder()
		api(t, e, Options{}).ServeHTTP(w, r)
		p := read(t, c.header, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != 400 || p.Field != c.header || p.Detail != "given twice" || e.asked != nil {
			t.Errorf("%s: status %d, %+v", c.header, w.Code, p)
		}
	}
}

func TestConditionsRefused(t *testing.T) {
	for _, c := range []struct{ request, header, value, field string }{
		{"PUT /v1/namespaces/ns/jobs/x", "If-Match", "12", "If-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "If-Match", `"0"`, "If-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "If-Match", ``, "If-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "If-None-Match", ``, "If-None-Match"},
		{"PATCH /v1/namespaces/ns/jobs/x", "If-Match", ``, "If-Match"},
		{"POST /v1/namespaces/ns/jobs/x:pause", "If-Match", ``, "If-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "If-Match", `*`, "If-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "If-None-Match", `"3"`, "If-None-Match"},
		{"PATCH /v1/namespaces/ns/jobs/x", "If-None-Match", "*", "If-None-Match"},
		{"DELETE /v1/namespaces/ns/jobs/x", "If-None-Match", `*`, "If-None-Match"},
		{"DELETE /v1/namespaces/ns/jobs/x", "If-Match", `3`, "If-Match"},
		{"DELETE /v1/namespaces/ns/jobs?prefix=x", "If-Match", `"3"`, "If-Match"},
		{"PUT /v1/namespaces/ns", "If-None-Match", `*`, "If-None-Match"},
		{"POST /v1/namespaces/ns/jobs/x:pause", "If-Match", `"3"`, "If-Match"},
		{"POST /v1/namespaces/ns/jobs/x:trigger", "If-None-Match", `*`, "If-None-Match"},
		{"PUT /v1/namespaces/ns/jobs/x", "Content-Encoding", `gzip`, "Content-Encoding"},
	} {
		e := &echo{}
		w := send(api(t, e, Options{}), c.request, "{}", c.header, c.value)
		p := read(t, c.request, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		if w.Code != 400 || p.Field != c.field || e.asked != nil {
			t.Errorf("%s %s %s: status %d, %+v", c.request, c.header, c.value, w.Code, p)
		}
	}
}

// TestErrors: what the service refuses reaches the caller whole.
func TestErrors(t *testing.T) {
	const job = "PUT /v1/namespaces/ns/jobs/x"
	for _, c := range []struct {
		err     error
		headers []string
		status  int
		want    problem
	}{
		{carillon.Errorf(carillon.InvalidArgument, "target.http.url", "is no URL"), nil, 400,
			problem{Code: "invalid_argument", Field: "target.http.url", Detail: "is no URL"}},
		{carillon.Errorf(carillon.NotFound, "name", "unknown"), nil, 404,
			problem{Code: "not_found", Field: "name", Detail: "unknown"}},
		{carillon.Errorf(carillon.AlreadyExists, "name", "is there"), nil, 409,
			problem{Code: "already_exists", Field: "name", Detail: "is there"}},
		{carillon.Errorf(carillon.AlreadyExists, "name", "is there"), []string{"If-None-Match", "*"}, 412,
			problem{Code: "already_exists", Field: "name", Detail: "is there"}},
		{carillon.Errorf(carillon.FailedPrecondition, "", "old"), []string{"If-Match", `"1"`}, 412,
			problem{Code: "failed_precondition", Detail: "old"}},
		{&carillon.Error{Kind: carillon.Unavailable, Message: "later", Unknown: true}, nil, 503,
			problem{Code: "unavailable", Detail: "later", OutcomeUnknown: true}},
		{errors.New("secret"), nil, 500, problem{Code: "internal",
			Detail: "internal error; the server's log has the cause"}},
	} {
		w := send(api(t, &echo{err: c.err}, Options{}), job, "{}", c.headers...)
		p := read(t, c.err.Error(), w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
		p.Type, p.Title, p.Status = "", "", 0
		if w.Code != c.status || p != c.want {
			t.Errorf("%v: status %d, %+v", c.err, w.Code, p)
		}
	}
}

// TestAReadLeavesNothingOpen: nothing was changed, whatever became of it.
func TestAReadLeavesNothingOpen(t *testing.T) {
	lost := &carillon.Error{Kind: carillon.DeadlineExceeded, Message: "the deadline passed", Unknown: true}
	w := send(api(t, &echo{err: lost}, Options{}), "GET /v1/namespaces/ns/jobs/x", "")
	p := read(t, "get", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	if w.Code != 504 || p.OutcomeUnknown || !lost.Unknown {
		t.Errorf("status %d, %+v", w.Code, p)
	}
}

func TestBodyLimit(t *testing.T) {
	w := send(api(t, &echo{}, Options{MaxBody: 10}), "PUT /v1/namespaces/ns/jobs/x", `{"note":"0123456789"}`)
	p := read(t, "too large", w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	if w.Code != http.StatusRequestEntityTooLarge || p.Code != "resource_exhausted" ||
		p.Detail != "the body is larger than 10 bytes" {
		t.Errorf("status %d, %+v", w.Code, p)
	}
}
