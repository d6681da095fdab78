package daprapi

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
	_ "github.com/carillonhq/carillon/server/store/pebble"
)

// rig is a node with the face over gRPC, all in memory but for the store.
type rig struct {
	t      testing.TB
	node   *server.Node
	client pb.SchedulerClient
	jobs   carillon.Scheduler
	leave  func() // ends the streams of the face
	stop   func()
}

// start sets a node to work until the test ends or stop is called.
func start(t testing.TB, store string, o Options) *rig {
	t.Helper()
	return startWith(t, server.Config{Store: store}, o, insecure.NewCredentials(), insecure.NewCredentials())
}

// startWith is start for a configuration, with the credentials of the listener and of the client.
func startWith(t testing.TB, c server.Config, o Options, of, with credentials.TransportCredentials) *rig {
	t.Helper()
	c.Partitions, c.SlowStart.Step = 4, -1
	node, err := server.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	frame := grpcapi.NewFrame(server.APIOptions(grpcapi.Options{}), grpc.Creds(of))
	leave := Serve(node, frame, o)
	listener := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- frame.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:mem", grpc.WithTransportCredentials(with),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, node: node, client: pb.NewSchedulerClient(conn), jobs: node.Remote(), leave: leave}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		now, cancel := context.WithCancel(context.Background())
		cancel()
		err := node.Close(now)
		leave()
		frame.GracefulStop()
		if err := errors.Join(err, <-served, conn.Close()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// bubble runs a test against a node in a bubble, where time costs nothing.
func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "memory:", Options{})
		test(t, r)
		r.stop()
	})
}

func appOf(id string) *pb.JobMetadata {
	return &pb.JobMetadata{AppId: id, Namespace: "default", Target: &pb.JobTargetMetadata{
		Type: &pb.JobTargetMetadata_Job{Job: &pb.TargetJob{}}}}
}

func actorOf(actorType, id string) *pb.JobMetadata {
	return &pb.JobMetadata{AppId: "app", Namespace: "default", Target: &pb.JobTargetMetadata{
		Type: &pb.JobTargetMetadata_Actor{Actor: &pb.TargetActorReminder{Type: actorType, Id: id}}}}
}

// far is a job that does not run while a test lasts.
func far() *pb.Job { return &pb.Job{DueTime: new("2099-01-01T00:00:00Z")} }

// put stores a job.
func (r *rig) put(name string, m *pb.JobMetadata, job *pb.Job) {
	r.t.Helper()
	if _, err := r.client.ScheduleJob(r.t.Context(),
		&pb.ScheduleJobRequest{Name: name, Metadata: m, Job: job}); err != nil {
		r.t.Fatalf("put %s: %v", name, err)
	}
}

// get is the job, nil if there is none.
func (r *rig) get(name string, m *pb.JobMetadata) *pb.Job {
	r.t.Helper()
	resp, err := r.client.GetJob(r.t.Context(), &pb.GetJobRequest{Name: name, Metadata: m})
	switch status.Code(err) {
	case codes.OK:
		return resp.GetJob()
	case codes.NotFound:
		return nil
	}
	r.t.Fatalf("get %s: %v", name, err)
	return nil
}

// list is the names of jobs.
func (r *rig) list(m *pb.JobMetadata) []string {
	r.t.Helper()
	resp, err := r.client.ListJobs(r.t.Context(), &pb.ListJobsRequest{Metadata: m})
	if err != nil {
		r.t.Fatalf("list: %v", err)
	}
	names := []string{}
	for _, j := range resp.GetJobs() {
		names = append(names, j.GetName())
	}
	return names
}

// sidecarOf is a sidecar at the other end of a stream.
type sidecarOf struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[pb.WatchJobsRequest, pb.WatchJobsResponse]
	cancel context.CancelFunc
}

// watch connects a sidecar and waits until it is accepted.
func (r *rig) watch(in *pb.WatchJobsRequestInitial) *sidecarOf {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.t.Cleanup(cancel)
	stream, err := r.client.WatchJobs(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &sidecarOf{r.t, stream, cancel}
	s.say(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Initial{Initial: in}})
	if _, err := stream.Header(); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// watchApp connects a sidecar for the jobs of an app.
func (r *rig) watchApp(id string) *sidecarOf {
	r.t.Helper()
	return r.watch(&pb.WatchJobsRequestInitial{AppId: id, Namespace: "default"})
}

func (s *sidecarOf) say(m *pb.WatchJobsRequest) {
	s.t.Helper()
	if err := s.stream.Send(m); err != nil {
		s.t.Fatal(err)
	}
}

// next is the next run.
func (s *sidecarOf) next() *pb.WatchJobsResponse {
	s.t.Helper()
	m, err := s.stream.Recv()
	if err != nil {
		s.t.Fatalf("no run came: %v", err)
	}
	return m
}

// expect is the id of the next run, which must be of the job.
func (s *sidecarOf) expect(name string) uint64 {
	s.t.Helper()
	m := s.next()
	if m.GetName() != name {
		s.t.Fatalf("got a run of %q, want one of %q", m.GetName(), name)
	}
	return m.GetId()
}

func (s *sidecarOf) result(id uint64, how pb.WatchJobsRequestResultStatus) {
	s.t.Helper()
	s.say(&pb.WatchJobsRequest{WatchJobRequestType: &pb.WatchJobsRequest_Result{
		Result: &pb.WatchJobsRequestResult{Id: id, Status: how}}})
}

func (s *sidecarOf) succeed(id uint64) {
	s.t.Helper()
	s.result(id, pb.WatchJobsRequestResultStatus_SUCCESS)
}
func (s *sidecarOf) fail(id uint64) {
	s.t.Helper()
	s.result(id, pb.WatchJobsRequestResultStatus_FAILED)
}

// end is how the stream ended.
func (s *sidecarOf) end() error {
	s.t.Helper()
	m, err := s.stream.Recv()
	if err == nil {
		s.t.Fatalf("a run of %q came", m.GetName())
	}
	return err
}

// sameTime holds what has passed since begin to the second.
func sameTime(t testing.TB, what string, begin time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(begin).Round(10 * time.Millisecond); got != want {
		t.Errorf("%s came after %v, want %v", what, got, want)
	}
}
