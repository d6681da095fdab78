package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	schedulerv1 "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// doors is a node that takes API keys, with keys of all kinds.
type doors struct {
	t    *testing.T
	node *server.Server
	log  *syncBuffer
	root carillon.Access
	keys map[string]string // by what they are; "" is none
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func grants(role carillon.Role, namespaces ...string) []carillon.AccessGrant {
	return []carillon.AccessGrant{{Role: role, Namespaces: namespaces}}
}

// everyRole grants all that there is in namespaces.
func everyRole(namespaces ...string) (all []carillon.AccessGrant) {
	for _, role := range carillon.Roles() {
		all = append(all, carillon.AccessGrant{Role: role, Namespaces: namespaces})
	}
	return all
}

func firstKey(t *testing.T, url string, n carillon.NewKey) carillon.CreatedKey {
	t.Helper()
	k, err := server.CreateKey(t.Context(), url, n)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openDoors(t *testing.T) *doors {
	t.Helper()
	d := &doors{t: t, log: &syncBuffer{}, keys: map[string]string{"none": ""}}
	url := "pebble:" + t.TempDir()
	d.keys["right"] = firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret
	d.keys["expired"] = firstKey(t, url,
		carillon.NewKey{Grants: everyRole("*"), Expires: time.Now().Add(-time.Second)}).Secret
	d.node = serve(t, server.Config{Store: url, Extensions: server.Extensions{Auth: server.AuthKeys}, Partitions: 4,
		Log: slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	root := d.client("right")
	d.root = root
	created := func(g []carillon.AccessGrant) carillon.CreatedKey {
		k, err := root.CreateKey(t.Context(), carillon.NewKey{Grants: g})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	d.keys["tenant"] = created(everyRole("other")).Secret
	d.keys["viewer"] = created(grants(carillon.RoleViewer, "a")).Secret
	d.keys["worker"] = created(grants(carillon.RoleWorker, "a")).Secret
	d.keys["a"] = created(everyRole("a")).Secret
	gone := created(everyRole("*"))
	d.keys["revoked"] = gone.Secret
	if unheard, err := root.RevokeKey(t.Context(), gone.Key.ID); err != nil || len(unheard) > 0 {
		t.Fatal(unheard, err)
	}
	return d
}

// client is one that shows a key.
func (d *doors) client(key string) *client.Client {
	d.t.Helper()
	c, err := client.Dial(d.node.GRPCAddr(), client.WithToken(d.keys[key]))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// conn is a connection that shows nothing by itself.
func (d *doors) conn() *grpc.ClientConn {
	d.t.Helper()
	c, err := grpc.NewClient(d.node.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// showing is a context of a call that shows a key.
func (d *doors) showing(key string) context.Context {
	if d.keys[key] == "" {
		return d.t.Context()
	}
	return metadata.AppendToOutgoingContext(d.t.Context(), "authorization", "Bearer "+d.keys[key])
}

// everyCall calls f with each rpc of the contract.
func everyCall(t *testing.T, f func(method string, md protoreflect.MethodDescriptor)) {
	t.Helper()
	n := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("carillon.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				f(fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name()), s.Methods().Get(j))
				n++
			}
		}
		return true
	})
	if n < 40 {
		t.Errorf("only %d calls", n)
	}
}

func newMessage(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// fillNamespaces sets every namespace in a message, also in those inside of it.
func fillNamespaces(m protoreflect.Message, namespace string, deep int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		about := strings.HasSuffix(string(m.Descriptor().Name()), "NamespaceRequest")
		switch {
		case fd.Name() == "namespaces":
			m.Mutable(fd).List().Append(protoreflect.ValueOfString(namespace))
		case fd.Name() == "namespace" || fd.Name() == "name" && about:
			m.Set(fd, protoreflect.ValueOfString(namespace))
		case fd.Message() == nil || fd.IsMap() || fd.Name() == "status" || deep == 0:
		case fd.IsList() && (fd.Name() == "jobs" || fd.Name() == "grants"):
			fillNamespaces(m.Mutable(fd).List().AppendMutable().Message(), namespace, deep-1)
		case fd.Name() == "job" || fd.Name() == "hello":
			fillNamespaces(m.Mutable(fd).Message(), namespace, deep-1)
		}
	}
}

// call makes a call, or the first step of a stream, and returns its code.
func (d *doors) call(conn *grpc.ClientConn, key, method string, md protoreflect.MethodDescriptor,
	m proto.Message) codes.Code {
	ctx, cancel := context.WithTimeout(d.showing(key), patience)
	defer cancel()
	reply := newMessage(d.t, md.Output())
	if !md.IsStreamingClient() && !md.IsStreamingServer() {
		return status.Code(conn.Invoke(ctx, method, m, reply))
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: md.IsStreamingServer(),
		ClientStreams: md.IsStreamingClient()}, method)
	if err == nil {
		if err = s.SendMsg(m); err == nil || errors.Is(err, io.EOF) {
			_ = s.CloseSend()
			err = s.RecvMsg(reply)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return status.Code(err)
}

// TestEveryCallIsJudged: every rpc is refused without a key, with one that is expired or revoked, with that of
// another tenant and with a role that may not, and not with the right one.
func TestEveryCallIsJudged(t *testing.T) {
	d := openDoors(t)
	conn := d.conn()
	d.judgesEveryCall(conn, "none", "expired", "revoked")
	d.othersOnTheAddress(conn)
	d.nothingIsTold()
}

// judgesEveryCall makes each call with credentials that are refused, those of another tenant, of a viewer, and
// the right ones.
func (d *doors) judgesEveryCall(conn *grpc.ClientConn, refused ...string) {
	t := d.t
	free := []string{"PreviewSchedule"}
	everyCall(t, func(method string, md protoreflect.MethodDescriptor) {
		m := newMessage(t, md.Input())
		fillNamespaces(m.ProtoReflect(), "a", 2)
		for _, key := range refused {
			if code := d.call(conn, key, method, md, m); code != codes.Unauthenticated {
				t.Errorf("%s, %s: %v", method, key, code)
			}
		}
		name := string(md.Name())
		code := d.call(conn, "tenant", method, md, m)
		keys := md.Parent().Name() == "AccessService" // which finds nothing that is the tenant's, or asks for a grant
		if code != codes.NotFound && code != codes.PermissionDenied && !(keys && name == "ListKeys") {
			t.Errorf("%s, of another tenant: %v", method, code)
		}
		code = d.call(conn, "viewer", method, md, m)
		reads := strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List") || name == "Watch" || slices.Contains(free, name)
		if !reads && code != codes.PermissionDenied {
			t.Errorf("%s, viewer: %v", method, code)
		}
		if d.keys["worker"] != "" && reads && !slices.Contains(free, name) && name != "GetPayload" {
			if code = d.call(conn, "worker", method, md, m); code != codes.PermissionDenied {
				t.Errorf("%s, worker: %v", method, code)
			}
		}
		if name == "Watch" || name == "WatchNodes" || name == "DrainNode" {
			return // which go on, or end the node's work
		}
		if code := d.call(conn, "right", method, md, m); code == codes.Unauthenticated || code == codes.PermissionDenied {
			t.Errorf("%s, right: %v", method, code)
		}
	})
}

// othersOnTheAddress: a check of health says whether the node serves; all else needs a key.
func (d *doors) othersOnTheAddress(conn *grpc.ClientConn) {
	health := healthpb.NewHealthClient(conn)
	if _, err := health.Check(d.t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		d.t.Errorf("health: %v", err)
	}
	if _, err := health.List(d.t.Context(), &healthpb.HealthListRequest{}); status.Code(err) != codes.Unauthenticated {
		d.t.Errorf("health list: %v", err)
	}
	for key, want := range map[string]codes.Code{"none": codes.Unimplemented, "right": codes.Unimplemented} {
		err := conn.Invoke(d.showing(key), "/dapr.proto.scheduler.v1.Scheduler/ScheduleJob", &pb.GetJobRequest{}, &pb.Job{})
		if status.Code(err) != want { // this node has no face of Dapr's
			d.t.Errorf("dapr, %s: %v", key, err)
		}
	}
}

// nothingIsTold: no key is in the log, in metrics, or in what jobs and keys say.
func (d *doors) nothingIsTold() {
	d.t.Helper()
	said := d.log.String()
	if !strings.Contains(said, "node is up") {
		d.t.Error("nothing was logged")
	}
	req, _ := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.node.HTTPAddr()+"/metrics", nil)
	req.Header.Set("Authorization", "Bearer "+d.keys["right"])
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Errorf("metrics: %d, %v", resp.StatusCode, err)
	}
	page, err := d.root.ListKeys(d.t.Context(), carillon.KeyQuery{})
	if err != nil || len(page.Keys) < 4 {
		d.t.Fatal(page, err)
	}
	all := said + string(metrics) + fmt.Sprint(wire.KeyPageToProto(page))
	for name, key := range d.keys {
		if key != "" && strings.Contains(all, key[20:]) {
			d.t.Errorf("the key %q is told", name)
		}
	}
}

var inPath = regexp.MustCompile(`\{[^}]+\}`)

// TestEveryRouteIsJudged: the same of REST, by what the node's own description lists.
func TestEveryRouteIsJudged(t *testing.T) {
	d := openDoors(t)
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(httpapi.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	ask := func(key, method, path string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), "http://"+d.node.HTTPAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.keys[key] != "" {
			req.Header.Set("Authorization", "Bearer "+d.keys[key])
		}
		resp, err := (&http.Client{}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(body)
	}
	n := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			n++
			plain := inPath.ReplaceAllString(strings.ReplaceAll(path, "{kind}", "worker"), "a")
			if path == "/livez" || path == "/readyz" {
				if code, _, body := ask("none", method, plain); code != http.StatusOK || body != "" {
					t.Errorf("%s: %d, %q", path, code, body)
				}
			} else if code, header, _ := ask("none", method, plain); code != http.StatusUnauthorized || header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s, none: %d", method, path, code)
			}
			for _, key := range []string{"expired", "revoked"} {
				if code, _, _ := ask(key, method, plain); code != http.StatusUnauthorized {
					t.Errorf("%s %s, %s: %d", method, path, key, code)
				}
			}
			open := slices.Contains([]string{"/livez", "/readyz", "/openapi.json", "/v1/schedules:preview", "/v1/keys", "/v1/session"}, path)
			if code, _, body := ask("tenant", method, plain); !open && code != http.StatusNotFound && code != http.StatusForbidden {
				t.Errorf("%s %s, of another tenant: %d %s", method, path, code, body)
			}
			wrong, payload := "viewer", strings.HasSuffix(path, "/payloads/{payload}") // which workers may read
			if method == "get" || method == "head" {
				wrong = "worker"
			}
			if !(open && path != "/v1/keys") && !(payload && wrong == "worker") {
				if code, _, body := ask(wrong, method, plain); code != http.StatusForbidden {
					t.Errorf("%s %s, %s: %d %s", method, path, wrong, code, body)
				}
			}
			if strings.HasSuffix(path, ":watch") || strings.HasSuffix(path, ":drain") {
				continue
			}
			if code, _, body := ask("right", method, plain); code == http.StatusUnauthorized || code == http.StatusForbidden {
				t.Errorf("%s %s, right: %d %s", method, path, code, body)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d routes", n)
	}
	if code, _, _ := ask("viewer", "GET", "/metrics"); code != http.StatusForbidden {
		t.Errorf("metrics for a viewer of one namespace: %d", code)
	}
	if code, _, _ := ask("a", "HEAD", "/v1/namespaces/b/events:watch"); code != http.StatusNotFound {
		t.Errorf("HEAD of a watch: %d", code)
	}
	d.nothingIsTold()
}

// TestTenantsStayApart: of 1,000 generated calls of a tenant that name what is another's, alone or beside its
// own, none succeeds and nothing changes; ids, page tokens and the names of jobs do not help it.
func TestTenantsStayApart(t *testing.T) {
	d := openDoors(t)
	root, conn, ctx := d.client("right"), d.conn(), t.Context()
	for _, ns := range []string{"a", "b"} {
		for _, name := range []string{"job", "two"} {
			if _, err := root.PutJob(ctx, carillon.Job{Namespace: ns, Name: name, Schedule: "@yearly", Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run, err := root.TriggerJob(ctx, carillon.Key{Namespace: "b", Name: "job"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := root.ListJobs(ctx, carillon.JobQuery{Namespace: "b", PageSize: 1})
	if err != nil || page.NextPageToken == "" {
		t.Fatal(page, err)
	}
	state := func() string {
		jobs, err := root.ListJobs(ctx, carillon.JobQuery{Namespace: "b"})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := root.ListRuns(ctx, carillon.RunQuery{Namespace: "b"})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for i := range jobs.Jobs {
			fmt.Fprintln(&text, wire.JobToProto(&jobs.Jobs[i]).GetStatus().GetGeneration(), jobs.Jobs[i].Name, jobs.Jobs[i].Paused)
		}
		for i := range runs.Runs {
			fmt.Fprintln(&text, runs.Runs[i].ID, runs.Runs[i].Status)
		}
		return text.String()
	}
	eventually(t, "the run waits for a worker", func() bool {
		r, err := root.GetRun(ctx, "b", run.ID)
		return err == nil && r.Status == carillon.RunStaged
	})
	before := state()
	type target struct {
		method string
		md     protoreflect.MethodDescriptor
	}
	var targets []target
	everyCall(t, func(method string, md protoreflect.MethodDescriptor) {
		m := newMessage(t, md.Input())
		if fillNamespaces(m.ProtoReflect(), "b", 2); proto.Size(m) > 0 {
			targets = append(targets, target{method, md})
		}
	})
	random := rand.New(rand.NewPCG(21, 1))
	for range 1000 {
		x := targets[random.IntN(len(targets))]
		m := newMessage(t, x.md.Input())
		fillNamespaces(m.ProtoReflect(), "b", random.IntN(3))
		if proto.Size(m) == 0 {
			fillNamespaces(m.ProtoReflect(), "b", 2)
		}
		for field, values := range map[string][]string{"name": {"job", "two"}, "id": {run.ID}, "job": {"job"}, "page_token": {page.NextPageToken}} {
			fd := x.md.Input().Fields().ByName(protoreflect.Name(field))
			if fd != nil && fd.Kind() == protoreflect.StringKind && !m.ProtoReflect().Has(fd) && random.IntN(4) > 0 {
				m.ProtoReflect().Set(fd, protoreflect.ValueOfString(values[random.IntN(len(values))]))
			}
		}
		code := d.call(conn, "a", x.method, x.md, m)
		if code != codes.NotFound && code != codes.PermissionDenied {
			t.Fatalf("%s %v: %v", x.method, m, code)
		}
	}
	own := d.client("a")
	if _, err := own.GetRun(ctx, "a", run.ID); !errors.Is(err, carillon.NotFound) {
		t.Errorf("a run by its id: %v", err)
	}
	if _, err := own.CancelRun(ctx, "a", run.ID); !errors.Is(err, carillon.NotFound) {
		t.Errorf("cancel a run by its id: %v", err)
	}
	if _, err := own.ListJobs(ctx, carillon.JobQuery{Namespace: "a", PageSize: 1, PageToken: page.NextPageToken}); !errors.Is(err, carillon.InvalidArgument) {
		t.Errorf("a page token: %v", err)
	}
	_, foreign := own.GetJob(ctx, carillon.Key{Namespace: "b", Name: "job"})
	_, missing := root.GetJob(ctx, carillon.Key{Namespace: "b", Name: "none"})
	if foreign == nil || missing == nil || strings.ReplaceAll(foreign.Error(), `"job"`, `"none"`) != missing.Error() {
		t.Errorf("what is another's: %v; what is not there: %v", foreign, missing)
	}
	if after := state(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// TestRevokedKeysEndStreams: a worker and a watcher lose their streams, and nobody gets in again.
func TestRevokedKeysEndStreams(t *testing.T) {
	d := openDoors(t)
	k, err := d.root.CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
	if err != nil {
		t.Fatal(err)
	}
	d.keys["ends"] = k.Secret
	c := d.client("ends")
	session, err := c.Connect(t.Context(), carillon.Hello{Namespace: "a", Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := session.Receive(t.Context())
		ended <- err
	}()
	began := make(chan struct{})
	go func() {
		ended <- c.Watch(t.Context(), carillon.WatchQuery{Namespace: "a"}, func(carillon.EventBatch) error {
			select {
			case <-began:
			default:
				close(began)
			}
			return nil
		})
	}()
	<-began
	if _, err := d.root.RevokeKey(t.Context(), k.Key.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := await(t, ended); !errors.Is(err, carillon.Unauthenticated) {
			t.Errorf("%v", err)
		}
	}
	if _, err := c.GetJob(t.Context(), carillon.Key{Namespace: "a", Name: "j"}); !errors.Is(err, carillon.Unauthenticated) {
		t.Error(err)
	}
	if _, err := d.root.RevokeKey(t.Context(), k.Key.ID); !errors.Is(err, carillon.NotFound) {
		t.Error(err)
	}
}

// TestKeysOfNamespaces: an admin of one makes keys for it alone, and knows of no others.
func TestKeysOfNamespaces(t *testing.T) {
	d := openDoors(t)
	a := d.client("a")
	if _, err := a.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleViewer, "b")}); err == nil {
		t.Error("a key of another namespace was made")
	}
	if _, err := a.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleViewer, "*")}); !errors.Is(err, carillon.PermissionDenied) {
		t.Error(err)
	}
	made, err := a.CreateKey(t.Context(), carillon.NewKey{Grants: grants(carillon.RoleViewer, "a"), Note: "mine"})
	if err != nil || !strings.HasPrefix(made.Key.Creator, "key ") {
		t.Fatal(made, err)
	}
	eventually(t, "the use of keys is recorded", func() bool {
		page, err := d.root.ListKeys(t.Context(), carillon.KeyQuery{})
		return err == nil && slices.ContainsFunc(page.Keys, func(k carillon.AccessKey) bool { // its own, the first
			return k.Creator == "carillon key create" && !k.LastUsed.IsZero() && k.LastUsed.Equal(k.LastUsed.Truncate(time.Hour))
		})
	})
	page, err := a.ListKeys(t.Context(), carillon.KeyQuery{})
	if err != nil || len(page.Keys) != 4 { // with itself, the viewer and the worker
		t.Errorf("%v, %v", page, err)
	}
	all, err := d.root.ListKeys(t.Context(), carillon.KeyQuery{PageSize: 2})
	if err != nil || len(all.Keys) != 2 || all.NextPageToken == "" {
		t.Fatal(all, err)
	}
	for i := range all.Keys {
		if all.Keys[i].Grants[0].Namespaces[0] != "a" {
			if _, err := a.RevokeKey(t.Context(), all.Keys[i].ID); !errors.Is(err, carillon.NotFound) {
				t.Error(err)
			}
		}
	}
}

// TestDaprsProtocolIsNotServedWithKeys: a sidecar cannot show one, and with one it is no sidecar.
func TestDaprsProtocolIsNotServedWithKeys(t *testing.T) {
	url := "pebble:" + t.TempDir()
	k := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	s := serve(t, server.Config{Store: url, Extensions: server.Extensions{Auth: server.AuthKeys, APIs: []server.API{
		func(n *server.Node, r grpc.ServiceRegistrar) func() { return daprapi.Serve(n, r, daprapi.Options{}) }}}})
	d := &doors{t: t, node: s, keys: map[string]string{"none": "", "right": k.Secret}}
	conn := d.conn()
	for key, want := range map[string]codes.Code{"none": codes.Unauthenticated, "right": codes.PermissionDenied} {
		_, err := schedulerv1.NewSchedulerClient(conn).ListJobs(d.showing(key), &schedulerv1.ListJobsRequest{})
		if status.Code(err) != want {
			t.Errorf("%s: %v", key, err)
		}
		stream, err := schedulerv1.NewSchedulerClient(conn).WatchJobs(d.showing(key))
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("%s, watch: %v", key, err)
		}
	}
}

// TestARevokedKeyIsRefusedByAllNodes of a shared store, and workers that one node serves for all are let in by
// the others.
func TestARevokedKeyIsRefusedByAllNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	url := "redis://" + realserver.StartRedis(t).Address()
	secret := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")}).Secret
	var nodes []*client.Client
	var addresses []string
	var servers []*server.Server
	for _, name := range []string{"one", "two"} {
		s := serve(t, server.Config{Store: url, Name: name, Extensions: server.Extensions{Auth: server.AuthKeys}})
		c, err := client.Dial(s.GRPCAddr(), client.WithToken(secret), client.WithOneAddress())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		nodes, addresses, servers = append(nodes, c), append(addresses, s.GRPCAddr()), append(servers, s)
	}
	spread(t, servers[0], 2)
	session, err := nodes[0].Connect(t.Context(), carillon.Hello{Namespace: "a", Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Send(t.Context(), carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 100}}}); err != nil {
		t.Fatal(err)
	}
	const jobs = 16 // in partitions of both nodes
	for i := range jobs {
		if _, err := nodes[1].PutJob(t.Context(), carillon.Job{Namespace: "a", Name: fmt.Sprint(i), Due: carillon.WhenText("0s"), Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < jobs; {
		m, err := session.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got += len(m.Runs)
	}
	var slowest time.Duration
	for i := range 10 {
		k, err := nodes[i%2].CreateKey(t.Context(), carillon.NewKey{Grants: everyRole("a")})
		if err != nil {
			t.Fatal(err)
		}
		other, err := client.Dial(addresses[(i+1)%2], client.WithToken(k.Secret))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the other node knows the key", func() bool {
			_, err := other.ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
			return err == nil
		})
		rotated, _, err := nodes[i%2].RotateKey(t.Context(), k.Key.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		renewed, err := client.Dial(addresses[(i+1)%2], client.WithToken(rotated.Secret))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the other node knows the new secret alone", func() bool {
			_, old := other.ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
			_, err := renewed.ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
			return err == nil && errors.Is(old, carillon.Unauthenticated)
		})
		_ = other.Close()
		other = renewed
		began := time.Now()
		if _, err := nodes[i%2].RevokeKey(t.Context(), k.Key.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the other node refuses the key", func() bool {
			_, err := other.ListJobs(t.Context(), carillon.JobQuery{Namespace: "a"})
			return errors.Is(err, carillon.Unauthenticated)
		})
		slowest = max(slowest, time.Since(began))
		_ = other.Close()
	}
	t.Logf("the slowest of 10 revocations was in force on the other node after %v", slowest)
}
