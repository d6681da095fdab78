package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/grpcapi"
	"github.com/carillonhq/carillon/internal/httpapi"
)

// stubNow is the clock of a stub.
var stubNow = time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)

// stub is a Scheduler of one job, "nightly", with the calls that scripts in testdata/stub make; the others panic. It judges
// what it is asked by the rules of the root package, as a node does.
type stub struct {
	carillon.Scheduler
	space     carillon.Namespace
	backfills []carillon.Backfill
}

func (s *stub) find(key carillon.Key) (carillon.Job, error) {
	if err := carillon.ValidateKey(key); err != nil {
		return carillon.Job{}, err
	}
	if key.Name != "nightly" {
		return carillon.Job{}, carillon.Errorf(carillon.NotFound, "name", "there is no job %q", key.Name)
	}
	return carillon.Job{Namespace: key.Namespace, Name: key.Name, Schedule: "@daily",
		Status: &carillon.JobStatus{Generation: 3, Phase: carillon.PhaseWaiting, Waiting: []string{"load"}}}, nil
}

func (s *stub) SetPaused(_ context.Context, key carillon.Key, p carillon.Pause) (carillon.Job, error) {
	job, err := s.find(key)
	job.Note = fmt.Sprintf("paused %v, catch up %v: %s", p.Paused, p.CatchUp, p.Note)
	return job, err
}

func (s *stub) SkipRun(_ context.Context, key carillon.Key) (carillon.Skip, error) {
	job, err := s.find(key)
	return carillon.Skip{Time: stubNow, Job: job}, err
}

func (s *stub) CompleteRun(_ context.Context, _ string, r carillon.Result) error {
	if r.Token != "tok" {
		return carillon.Errorf(carillon.InvalidArgument, "token", "%v of %v %s %v", r.Outcome, r.Progress.Percent, r.Progress.Message, r.At)
	}
	return nil
}

func (s *stub) StartBackfill(_ context.Context, key carillon.Key, spec carillon.BackfillSpec) (carillon.Backfill, error) {
	if _, err := s.find(key); err != nil {
		return carillon.Backfill{}, err
	}
	if err := spec.Validate(stubNow); err != nil {
		return carillon.Backfill{}, err
	}
	b := carillon.Backfill{ID: fmt.Sprint("b", len(s.backfills)+1), Namespace: key.Namespace, Job: key.Name, Spec: spec, Total: 1 << 60,
		Begun: 2, Succeeded: 1, Next: spec.From, Created: stubNow}
	s.backfills = append(s.backfills, b)
	return b, nil
}

func (s *stub) ListBackfills(_ context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	_, err := s.find(key)
	return s.backfills, err
}

func (s *stub) GetBackfill(_ context.Context, _, id string) (carillon.Backfill, error) {
	for _, b := range s.backfills {
		if b.ID == id {
			return b, nil
		}
	}
	return carillon.Backfill{}, carillon.Errorf(carillon.InvalidArgument, "id", "%q is not a backfill's id", id)
}

func (s *stub) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	b, err := s.GetBackfill(ctx, namespace, id)
	b.Status, b.Finished = carillon.BackfillCancelled, stubNow
	return b, err
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
	service := grpcapi.NewService(&stub{}, grpcapi.Options{Now: func() time.Time { return stubNow }})
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
	const from = `"from":"2099-01-01T00:00:00Z"`
	n := startStub(t)
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
		{"StartBackfill", "to", "", from + `,"to":"2098-01-01T00:00:00Z"`},
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
