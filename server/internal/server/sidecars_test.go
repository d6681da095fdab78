package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/server"
)

// forSidecars is a configuration with nothing but what Dapr's scheduler has.
func forSidecars(face server.API) server.Config {
	return server.Config{Store: "memory:", Partitions: 1, GRPC: server.None, HTTP: server.None, DrainGrace: -1,
		Sidecars: &server.Sidecars{Address: "127.0.0.1:0",
			API: face}, Monitoring: server.Monitoring{Healthz: "127.0.0.1:0", Metrics: "127.0.0.1:0"}}
}

// runUntil runs a server of exactly this configuration until stop is called.
func runUntil(t *testing.T, c server.Config) (s *server.Server, stop func()) {
	t.Helper()
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() {
		t.Helper()
		cancel()
		if err := await(t, ended); err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestSidecarsHaveADoorOfTheirOwn(t *testing.T) {
	var stopped atomic.Int32
	s, stop := runUntil(t, forSidecars(func(n *server.Node, _ grpc.ServiceRegistrar) func() {
		if n.Hub() == nil {
			t.Error("the face has no hub")
		}
		return func() { stopped.Add(1) }
	}))
	if s.GRPCAddr()+s.HTTPAddr()+s.DebugAddr() != "" {
		t.Errorf("there are other doors: %q, %q, %q", s.GRPCAddr(), s.HTTPAddr(), s.DebugAddr())
	}
	conn, err := grpc.NewClient(s.SidecarsAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", health, err)
	}
	_, err = pb.NewSchedulerServiceClient(conn).ListJobs(t.Context(), &pb.ListJobsRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("Carillon's own API at the door for sidecars: %v", err)
	}
	stop()
	if n := stopped.Load(); n != 1 {
		t.Errorf("the face was stopped %d times", n)
	}
}

func TestAFaceIsStoppedWhenTheServerCannotStart(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := forSidecars(func(*server.Node, grpc.ServiceRegistrar) func() {
		t.Error("the face was made")
		return nil
	})
	c.Monitoring.Healthz = taken.Addr().String()
	if _, err := server.New(c); err == nil || !strings.HasPrefix(err.Error(), "healthz: ") {
		t.Errorf("a port that is taken: %v", err)
	}
	stopped := false
	c = forSidecars(func(*server.Node, grpc.ServiceRegistrar) func() { return func() { stopped = true } })
	c.HTTP, c.Browsers.TrustedOrigins = "127.0.0.1:0", []string{"nonsense"}
	if _, err := server.New(c); err == nil || !stopped {
		t.Errorf("a wrong origin: %v, stopped %v", err, stopped)
	}
}

func TestHealthz(t *testing.T) {
	var trouble atomic.Pointer[error]
	c := forSidecars(func(*server.Node, grpc.ServiceRegistrar) func() { return nil })
	c.Sidecars.Ready = func() error {
		if err := trouble.Load(); err != nil {
			return *err
		}
		return nil
	}
	s, stop := runUntil(t, c)
	defer stop()
	url := "http://" + s.HealthzAddr()
	if code, body := get(t, url+"/healthz"); code != http.StatusOK || body != "" {
		t.Errorf("ready: %d %q", code, body)
	}
	if code, _ := get(t, url+"/metrics"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}
	no := errors.New("no identity yet")
	trouble.Store(&no)
	if code, body := get(t, url+"/healthz"); code != http.StatusServiceUnavailable || body != "" {
		t.Errorf("not ready: %d %q", code, body)
	}
}

func TestMetricsAtEveryPath(t *testing.T) {
	s, stop := runUntil(t, forSidecars(func(*server.Node, grpc.ServiceRegistrar) func() { return nil }))
	defer stop()
	for _, path := range []string{"/", "/metrics"} {
		if code, body := get(t, "http://"+s.MetricsAddr()+path); code != http.StatusOK ||
			!strings.Contains(body, "carillon_build_info") {
			t.Errorf("%s: %d %.200q", path, code, body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.MetricsAddr(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	var caller http.Client
	defer caller.CloseIdleConnections()
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a page that rebinds its name to loopback: %d %.200q, %v", res.StatusCode, body, err)
	}
}

// TestTheLargestJobFits: what the configuration lets a job have comes through the gRPC listener.
func TestTheLargestJobFits(t *testing.T) {
	const payload = 6 << 20
	c := forSidecars(nil)
	c.Sidecars, c.GRPC = nil, "127.0.0.1:0"
	c.Limits.Payload = payload
	s, stop := runUntil(t, c)
	defer stop()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	job := &pb.Job{Namespace: "default", Name: "n",
		Target:  &pb.Target{Kind: &pb.Target_Worker{Worker: &pb.WorkerTarget{Queue: "q"}}},
		DueTime: "2099-01-01T00:00:00Z", Data: make([]byte, payload)}
	if _, err := pb.NewSchedulerServiceClient(conn).PutJob(t.Context(), &pb.PutJobRequest{Job: job},
		grpc.MaxCallRecvMsgSize(2*payload)); err != nil {
		t.Error(err)
	}
}
