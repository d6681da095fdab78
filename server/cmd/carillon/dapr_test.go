package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	etcdpb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestALeavingNodeEndsItsStreams: streams that are open for ever do not hold a node up, nor does it cut them.
func TestALeavingNodeEndsItsStreams(t *testing.T) {
	node, stop, err := startNode(t.Context(), server.Config{Store: "memory:", Partitions: 2, GRPC: server.None,
		HTTP: server.None, DrainGrace: -1, Sidecars: &server.Sidecars{Address: "127.0.0.1:0",
			API: daprAPI(daprapi.Options{})},
		Monitoring: server.Monitoring{Tools: &server.Tools{Address: "127.0.0.1:0",
			API: etcdAPI(newDaprFlags().etcdOptions(slog.Default()))}}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(node.SidecarsAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := pb.NewSchedulerClient(conn)
	hosts, err := c.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if told, err := hosts.Recv(); err != nil || len(told.GetHosts()) != 1 ||
		told.GetHosts()[0].GetAddress() != node.SidecarsAddr() {
		t.Errorf("told %v, %v; want where the node was reached, %s", told, err, node.SidecarsAddr())
	}
	jobs, err := c.WatchJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	initial := &pb.WatchJobsRequestInitial{Namespace: "default", AppId: "app"}
	if err := jobs.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{Initial: initial}}); err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{node.ToolsAddr()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	watch, err := etcdpb.NewWatchClient(etcd.ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := &etcdpb.WatchCreateRequest{Key: []byte("dapr/jobs/a")}
	if err := watch.Send(&etcdpb.WatchRequest{RequestUnion: &etcdpb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		t.Fatal(err)
	}
	if m, err := watch.Recv(); err != nil || !m.GetCreated() {
		t.Errorf("watch: %v, %v", m, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Convert(err).Message() != status.Convert(rpctypes.ErrGRPCStopped).Message() {
		t.Errorf("a watch ended with %v", err)
	}
	for name, stream := range map[string]grpc.ClientStream{"WatchHosts": hosts, "WatchJobs": jobs} {
		if err := stream.RecvMsg(&pb.WatchJobsResponse{}); err == nil ||
			strings.Contains(err.Error(), "reading from server") {
			t.Errorf("%s ended with %v", name, err)
		}
	}
}

// addressIn is where a node listens, from its log.
func addressIn(ts *testscript.TestScript, log, door string) string {
	found := regexp.MustCompile(`\b` + door + `"?[=:]"?([0-9.]+:\d+)`).FindStringSubmatch(ts.ReadFile(log))
	if found == nil {
		ts.Fatalf("%s does not say where %s is", log, door)
	}
	return found[1]
}

// page reads a page of a node until it is as it should be: page LOG DOOR PATH STATUS PATTERN.
func page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: page LOG DOOR PATH STATUS PATTERN")
	}
	pattern := regexp.MustCompile(args[4])
	var code int
	var text []byte
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
			"http://"+addressIn(ts, args[0], args[1])+args[2], http.NoBody)
		ts.Check(err)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		ts.Check(err)
		code = res.StatusCode
		text, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
		ts.Check(err)
		if strconv.Itoa(code) == args[3] && pattern.Match(text) {
			return
		}
	}
	ts.Fatalf("%s%s: %d\n%s", args[1], args[2], code, text)
}

// sidecar does what a sidecar of the app "app" does: sidecar LOG schedule NAME DUE, or gone NAME, or work
// NAME, which takes the next run and reports a success, or hosts ADDRESS.
func sidecar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: sidecar LOG VERB ARG...")
	}
	conn, err := grpc.NewClient(addressIn(ts, args[0], "dapr"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := pb.NewSchedulerClient(conn)
	switch args[1] {
	case "schedule":
		_, err = c.ScheduleJob(ctx, &pb.ScheduleJobRequest{Name: args[2], Metadata: ofApp(),
			Job: &pb.Job{DueTime: &args[3]}})
	case "gone":
		_, err = c.GetJob(ctx, &pb.GetJobRequest{Name: args[2], Metadata: ofApp()})
		if status.Code(err) == codes.NotFound {
			err = nil
		} else {
			ts.Fatalf("the job is there: %v", err)
		}
	case "work":
		err = workOnce(ctx, c, args[2])
	case "hosts":
		err = toldHosts(ctx, c, args[2])
	default:
		ts.Fatalf("what is %q?", args[1])
	}
	ts.Check(err)
}

// tool looks into the jobs as a tool that takes the node for an etcd: tool LOG PREFIX KEY..., the keys that
// begin so.
func tool(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: tool LOG PREFIX KEY...")
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{addressIn(ts, args[0], "etcd")}, Logger: zap.NewNop()})
	ts.Check(err)
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found, err := etcd.Get(ctx, args[1], clientv3.WithPrefix())
	ts.Check(err)
	var keys []string
	for _, item := range found.Kvs {
		keys = append(keys, string(item.Key))
	}
	if !slices.Equal(keys, args[2:]) {
		ts.Fatalf("keys %q, want %q", keys, args[2:])
	}
}

// ofApp says whose jobs are meant.
func ofApp() *pb.JobMetadata {
	return &pb.JobMetadata{Namespace: "default", AppId: "app", Target: &pb.JobTargetMetadata{
		Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}},
	}}
}

// workOnce takes one run, which must be of the job, and waits until its result has been counted.
func workOnce(ctx context.Context, c pb.SchedulerClient, name string) error {
	stream, err := c.WatchJobs(ctx)
	if err != nil {
		return err
	}
	initial := &pb.WatchJobsRequestInitial{Namespace: "default", AppId: "app"}
	if err := stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{Initial: initial}}); err != nil {
		return err
	}
	run, err := stream.Recv()
	if err != nil || run.GetName() != name {
		return fmt.Errorf("run of %q: %w", run.GetName(), err)
	}
	result := &pb.WatchJobsRequestResult{Id: run.GetId(), Status: pb.WatchJobsRequestResultStatus_SUCCESS}
	if err := stream.Send(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{Result: result}}); err != nil {
		return err
	}
	for { // a stream that is closed could have its result behind it
		if _, err := c.GetJob(ctx, &pb.GetJobRequest{Name: name,
			Metadata: ofApp()}); status.Code(err) == codes.NotFound {
			return stream.CloseSend()
		} else if err != nil {
			return err
		}
	}
}

// toldHosts reads where the schedulers are.
func toldHosts(ctx context.Context, c pb.SchedulerClient, want string) error {
	stream, err := c.WatchHosts(ctx, &pb.WatchHostsRequest{})
	if err != nil {
		return err
	}
	told, err := stream.Recv()
	if err != nil {
		return err
	}
	var all []string
	for _, h := range told.GetHosts() {
		all = append(all, h.GetAddress())
	}
	if got := strings.Join(all, " "); got != want {
		return fmt.Errorf("sidecars are told %q", got)
	}
	return nil
}
