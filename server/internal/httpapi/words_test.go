package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// restOf is where a call is in REST, and what its path says if a test says nothing else.
var restOf = map[string]struct {
	method, path string
	fields       map[string]string
}{
	"ResumeJob": {"POST", "/v1/namespaces/{namespace}/jobs/{name}:resume",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"SkipRun": {"POST", "/v1/namespaces/{namespace}/jobs/{name}:skip",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"StartBackfill": {"POST", "/v1/namespaces/{namespace}/jobs/{name}:backfill",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"ListTimes": {"GET", "/v1/namespaces/{namespace}/jobs/{name}:times",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"ListBackfills": {"GET", "/v1/namespaces/{namespace}/jobs/{name}:backfills",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"GetBackfill": {"GET", "/v1/namespaces/{namespace}/backfills/{id}",
		map[string]string{"namespace": "default", "id": "b"}},
	"CancelBackfill": {"POST", "/v1/namespaces/{namespace}/backfills/{id}:cancel",
		map[string]string{"namespace": "default", "id": "b"}},
	"GetNamespace": {"GET", "/v1/namespaces/{name}", map[string]string{"name": "default"}},
	"PutNamespace": {"PUT", "/v1/namespaces/{name}", map[string]string{"name": "default"}},
	"CompleteRun": {"POST", "/v1/namespaces/{namespace}/runs/{id}:complete",
		map[string]string{"namespace": "default", "id": "r"}},
}

// TestWrongCalls: every field of the calls wrong in turn, over REST and over gRPC: the answer names the
// field.
func TestWrongCalls(t *testing.T) {
	const from = `"from":"2026-01-01T00:00:00Z"`
	n := startNode(t)
	if a := n.rest(t, "PUT", "/v1/namespaces/default/jobs/nightly",
		`{"schedule":"@daily",`+rightTarget+`}`); a.status != 201 {
		t.Fatal(a)
	}
	for i, w := range []struct{ rpc, field, path, body string }{
		{"ResumeJob", "catch_up", "", `"catch_up":1`},
		{"ResumeJob", "name", "name=a//b", ``},
		{"SkipRun", "name", "name=a/../b", ``},
		{"SkipRun", "namespace", "namespace=a.b", ``},
		{"StartBackfill", "name", "name=a//b", from},
		{"StartBackfill", "namespace", "namespace=a.b", from},
		{"StartBackfill", "from", "", ``},
		{"StartBackfill", "from", "", `"from":"yesterday"`},
		{"StartBackfill", "from", "", `"from":"0001-01-01T00:00:00Z"`},
		{"StartBackfill", "to", "", from + `,"to":"0001-01-01T00:00:00Z"`},
		{"StartBackfill", "to", "", from + `,"to":"2025-01-01T00:00:00Z"`},
		{"StartBackfill", "to", "", from + `,"to":"2101-01-01T00:00:00Z"`},
		{"StartBackfill", "overlap", "", from + `,"overlap":"skip"`},
		{"StartBackfill", "overlap", "", from + `,"overlap":"replace"`},
		{"StartBackfill", "rate", "", from + `,"rate":-1`},
		{"StartBackfill", "rate", "", from + `,"rate":1e9`},
		{"ListTimes", "name", "name=a//b", ``},
		{"ListBackfills", "name", "name=a//b", ``},
		{"ListBackfills", "namespace", "namespace=a.b", ``},
		{"GetBackfill", "id", "id=nonsense", ``},
		{"CancelBackfill", "id", "id=nonsense", ``},
		{"GetNamespace", "name", "name=a.b", ``},
		{"PutNamespace", "name", "name=a.b", ``},
		{"PutNamespace", "strict", "", `"strict":"very"`},
		{"PutNamespace", "concurrency_limits", "", `"concurrency_limits":{"":1}`},
		{"PutNamespace", "concurrency_limits", "", `"concurrency_limits":{"` + long(300) + `":1}`},
		{"PutNamespace", "concurrency_limits.db", "", `"concurrency_limits":{"db":-1}`},
		{"PutNamespace", "concurrency_limits.db", "", `"concurrency_limits":{"db":1000001}`},
		{"CompleteRun", "outcome", "", ``},
		{"CompleteRun", "outcome", "", `"outcome":"later"`},
		{"CompleteRun", "retry_after", "", `"outcome":"failure","retry_after":"soon"`},
		{"CompleteRun", "progress", "", `"outcome":"progress"`},
		{"CompleteRun", "progress.percent", "", `"outcome":"progress","progress":{"percent":100.5}`},
		{"CompleteRun", "progress.percent", "", `"outcome":"progress","progress":{"percent":-1}`},
		{"CompleteRun", "progress.message", "", `"outcome":"progress","progress":{"message":"` + long(1025) + `"}`},
		{"CompleteRun", "at", "", `"outcome":"reschedule"`},
		{"CompleteRun", "at", "", `"outcome":"reschedule","at":"9999-01-01T00:00:00Z"`},
		{"CompleteRun", "token", "", `"outcome":"success"`},
	} {
		name, call := fmt.Sprintf("%s/%s/%d", w.rpc, w.field, i), restOf[w.rpc]
		path, fields := call.path, ""
		for field, value := range call.fields {
			if changed, other, _ := strings.Cut(w.path, "="); changed == field {
				value = other
			}
			path, fields = strings.ReplaceAll(path, "{"+field+"}", value), fields+fmt.Sprintf("%q:%q,", field, value)
		}
		n.wantProblem(t, name, n.rest(t, call.method, path, "{"+w.body+"}"), w.field)

		md := pb.File_carillon_v1_scheduler_proto.Services().ByName("SchedulerService").Methods().ByName(protoreflect.Name(w.rpc))
		req, reply := message(t, md.Input()), message(t, md.Output())
		if _, err := httpapi.Unmarshal([]byte("{"+strings.TrimSuffix(fields+w.body, ",")+"}"), req); err == nil {
			n.wantError(t, name, n.conn.Invoke(t.Context(), "/carillon.v1.SchedulerService/"+w.rpc,
				req, reply), w.field)
		}
	}
}
