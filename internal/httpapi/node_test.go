package httpapi_test

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/grpcapi"
	"github.com/carillonhq/carillon/internal/httpapi"
)

// node is a running node with both faces.
type node struct {
	url  string
	grpc pb.SchedulerServiceClient
}

// strict is a Scheduler that judges jobs as the engine does, and keeps none.
type strict struct{ carillon.Scheduler }

func (strict) PutJob(_ context.Context, j carillon.Job, _ ...carillon.PutOption) (carillon.Put, error) {
	if err := j.Validate(carillon.DefaultLimits()); err != nil {
		return carillon.Put{}, err
	}
	sched, err := j.ParseSchedule()
	if err == nil {
		_, _, _, err = carillon.FirstRun(&j, sched, time.Now())
	}
	return carillon.Put{Job: j}, err
}

func (strict) ListJobs(context.Context, carillon.JobQuery) (carillon.JobPage, error) {
	return carillon.JobPage{}, nil
}

func startNode(t *testing.T) *node {
	t.Helper()
	service := grpcapi.NewService(strict{}, grpcapi.Options{})
	handler, err := httpapi.New(service, httpapi.Options{Interceptor: service.Guard})
	if err != nil {
		t.Fatal(err)
	}
	rest := httptest.NewServer(handler)
	t.Cleanup(rest.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpcapi.NewServer(service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &node{url: rest.URL, grpc: pb.NewSchedulerServiceClient(conn)}
}
