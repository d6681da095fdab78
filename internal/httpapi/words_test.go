package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/grpcapi"
	"github.com/carillonhq/carillon/internal/httpapi"
)

// stub is a Scheduler that keeps the settings of one namespace, for the scripts in testdata/stub; its other calls panic. It
// judges what it is asked by the rules of the root package, as a node does.
type stub struct {
	carillon.Scheduler
	space carillon.Namespace
}

func (s *stub) GetNamespace(_ context.Context, name string) (carillon.Namespace, error) {
	if s.space.Name == name {
		return s.space, nil
	}
	return carillon.Namespace{Name: name}, carillon.ValidateNamespace(name)
}

func (s *stub) PutNamespace(_ context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	if err := ns.Validate(); err != nil {
		return carillon.Namespace{}, err
	}
	s.space = ns
	return ns, nil
}

// startStub is both faces over a stub.
func startStub(t *testing.T) *node {
	t.Helper()
	service := grpcapi.NewService(&stub{}, grpcapi.Options{})
	handler, err := httpapi.New(service, httpapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, done := grpcapi.NewServer(service), make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	rest := httptest.NewServer(handler)
	t.Cleanup(func() {
		rest.Close()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &node{url: rest.URL, conn: conn, grpc: pb.NewSchedulerServiceClient(conn)}
}

// restOf is where a call is in REST, and what its path says if a test says nothing else.
var restOf = map[string]struct {
	method, path string
	fields       map[string]string
}{
	"ResumeJob": {"POST", "/v1/namespaces/{namespace}/jobs/{name}:resume", map[string]string{"namespace": "default", "name": "nightly"}},
	"SkipRun":   {"POST", "/v1/namespaces/{namespace}/jobs/{name}:skip", map[string]string{"namespace": "default", "name": "nightly"}},
	"StartBackfill": {"POST", "/v1/namespaces/{namespace}/jobs/{name}:backfill",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"ListBackfills": {"GET", "/v1/namespaces/{namespace}/jobs/{name}:backfills",
		map[string]string{"namespace": "default", "name": "nightly"}},
	"GetBackfill":    {"GET", "/v1/namespaces/{namespace}/backfills/{id}", map[string]string{"namespace": "default", "id": "b"}},
	"CancelBackfill": {"POST", "/v1/namespaces/{namespace}/backfills/{id}:cancel", map[string]string{"namespace": "default", "id": "b"}},
	"GetNamespace":   {"GET", "/v1/namespaces/{name}", map[string]string{"name": "default"}},
	"PutNamespace":   {"PUT", "/v1/namespaces/{name}", map[string]string{"name": "default"}},
	"CompleteRun":    {"POST", "/v1/namespaces/{namespace}/runs/{id}:complete", map[string]string{"namespace": "default", "id": "r"}},
}

// TestWrongCalls: every field of the calls wrong in turn, over REST and over gRPC: the answer names the field.
func TestWrongCalls(t *testing.T) {
	const from = `"from":"2026-01-01T00:00:00Z"`
	node, stub := startNode(t), startStub(t)
	if a := node.rest(t, "PUT", "/v1/namespaces/default/jobs/nightly", `{"schedule":"@daily",`+rightTarget+`}`); a.status != 201 {
		t.Fatal(a)
	}
	for i, w := range []struct{ rpc, field, path, body string }{
		{"ResumeJob", "catch_up", "", `"catch_up":1`},
		{"ResumeJob", "name", "name=a//b", ``},
		{"SkipRun", "name", "name=a/../b", ``},
		{"SkipRun", "namespace", "namespace=Upper", ``},
		{"StartBackfill", "name", "name=a//b", from},
		{"StartBackfill", "namespace", "namespace=Upper", from},
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
		{"ListBackfills", "name", "name=a//b", ``},
		{"ListBackfills", "namespace", "namespace=Upper", ``},
		{"GetBackfill", "id", "id=nonsense", ``},
		{"CancelBackfill", "id", "id=nonsense", ``},
		{"GetNamespace", "namespace", "name=Upper", ``},
		{"PutNamespace", "namespace", "name=Upper", ``},
		{"PutNamespace", "strict", "", `"strict":"very"`},
		{"PutNamespace", "limits", "", `"limits":{"":1}`},
		{"PutNamespace", "limits", "", `"limits":{"` + long(300) + `":1}`},
		{"PutNamespace", "limits.db", "", `"limits":{"db":-1}`},
		{"PutNamespace", "limits.db", "", `"limits":{"db":1000001}`},
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
		n := node
		if strings.HasSuffix(w.rpc, "Namespace") { // no node keeps settings yet
			n = stub
		}
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
			n.wantError(t, name, n.conn.Invoke(t.Context(), "/carillon.v1.SchedulerService/"+w.rpc, req, reply), w.field)
		}
	}
}
