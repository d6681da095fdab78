package grpcapi

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// noted is an [Observer] that writes down what it is told.
type noted struct {
	mu  sync.Mutex
	all []string
}

func (n *noted) Called(api, method, code string, took time.Duration) {
	if took < 0 {
		code += " before it began"
	}
	n.Streamed(api, method, code)
}

func (n *noted) Streamed(api, method, code string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf("%s %s %s", api, method, code))
}

func (n *noted) read() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// TestCallsAreObserved, refused ones and streams too, and no calls of health.
func TestCallsAreObserved(t *testing.T) {
	var n noted
	c := dial(t, &stub{putJob: stored}, Options{Observer: &n})
	if _, err := c.PutJob(t.Context(), &pb.PutJobRequest{Name: "a", Job: &pb.Job{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetJob(t.Context(), &pb.GetJobRequest{}); err == nil {
		t.Error("a job without a name is read")
	}
	jobs, err := c.PutJobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	want := []string{"grpc PutJob OK", "grpc GetJob InvalidArgument", "grpc PutJobs OK"}
	if got := n.read(); !slices.Equal(got, want) {
		t.Errorf("observed %q, want %q", got, want)
	}
}

func TestCodesAreBounded(t *testing.T) {
	o := Options{Observer: &noted{}}
	n := o.Observer.(*noted)
	for _, method := range []string{"/dapr.proto.scheduler.v1.Scheduler/ScheduleJob",
		healthpb.Health_Check_FullMethodName, "/carillon.peer.v1.PeerService/Call"} {
		o.observe(method, status.Error(codes.Code(99), ""), Observer.Streamed)
		o.observe(method, ToStatus(carillon.Errorf(carillon.NotFound, "", "no")), Observer.Streamed)
	}
	if got, want := n.read(), []string{"dapr ScheduleJob Unknown",
		"dapr ScheduleJob NotFound"}; !slices.Equal(got, want) {
		t.Errorf("observed %q, want %q", got, want)
	}
}
