package daprapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestServe: the face is on a server's gRPC listener beside Carillon's own service, and its streams do not
// hold the server up when it leaves.
func TestServe(t *testing.T) {
	node, err := server.New(server.Config{Store: "memory:", Partitions: 4, GRPC: "127.0.0.1:0",
		HTTP: "127.0.0.1:0", DrainGrace: -1,
		Extensions: server.Extensions{APIs: []server.API{
			func(n *server.Node, r grpc.ServiceRegistrar) func() { return Serve(n, r, Options{}) }}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	conn, err := grpc.NewClient(node.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, client: pb.NewSchedulerClient(conn)}
	r.put("n", appOf("app"), far())
	if _, err := r.client.ScheduleJob(t.Context(),
		&pb.ScheduleJobRequest{Name: "n", Metadata: appOf("app"),
			Job: &pb.Job{}}); status.Code(err) != codes.Unknown {
		t.Errorf("a bad job: %v", err)
	}
	c, err := client.Dial(node.GRPCAddr())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.DeleteJobs(t.Context(), "default", "dapr/app/app/"); n != 1 || err != nil {
		t.Errorf("Carillon's own service finds %d jobs, %v", n, err)
	}
	checkCalls(t, "http://"+node.HTTPAddr())
	s := r.watchApp("app")
	hosts, err := r.client.WatchHosts(t.Context(), &pb.WatchHostsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := hosts.Recv(); err != nil || len(m.GetHosts()) != 1 ||
		m.GetHosts()[0].GetAddress() != node.GRPCAddr() {
		t.Errorf("hosts %v, %v", m, err)
	}
	silent, err := r.client.WatchJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.put("held", appOf("app"), soon())
	s.expect("held")
	leave()
	if err := s.end(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := silent.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream that has said nothing ended with %v", err)
	}
	if _, err := hosts.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of hosts ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// checkCalls looks whether the calls of each API are counted and measured, with their codes.
func checkCalls(t *testing.T, at string) {
	t.Helper()
	var c http.Client
	get := func(path string) string {
		resp, err := c.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	get("/v1/namespaces/default/jobs/missing")
	text := get("/metrics")
	for _, line := range []string{
		`carillon_api_calls_total{api="dapr",code="OK",method="ScheduleJob"} 1`,
		`carillon_api_calls_total{api="dapr",code="Unknown",method="ScheduleJob"} 1`,
		`carillon_api_call_seconds_count{api="dapr",method="ScheduleJob"} 2`,
		`carillon_api_calls_total{api="grpc",code="OK",method="DeleteJobs"} 1`,
		`carillon_api_calls_total{api="rest",code="NotFound",method="GetJob"} 1`,
		"carillon_backfills 0",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is not in the metrics", line)
		}
	}
}
