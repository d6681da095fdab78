package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// TestNoCallIsRepeatedForEver: a connection that is there and carries no call is not waited for after the time
// that a call may be repeated in.
func TestNoCallIsRepeatedForEver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	defer server.Stop()
	go server.Serve(l) //nolint:errcheck // it ends when it is stopped
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !connected(t.Context(), conn, time.Now().Add(time.Minute)) {
		t.Fatal("not connected")
	}
	if connected(t.Context(), conn, time.Now()) {
		t.Error("the time is over, and it may be repeated")
	}
}

// cutLoad is a service whose bulk load takes no message.
type cutLoad struct{ pb.SchedulerServiceClient }

func (cutLoad) PutJobs(context.Context, ...grpc.CallOption) (
	grpc.ClientStreamingClient[pb.PutJobsRequest, pb.PutJobsResponse], error) {
	return cutStream{}, nil
}

type cutStream struct {
	grpc.ClientStreamingClient[pb.PutJobsRequest, pb.PutJobsResponse]
}

func (cutStream) Send(*pb.PutJobsRequest) error { return status.Error(codes.Unavailable, "cut") }

// TestEachErrorOfALoadIsOurs: also of a message in the middle of it.
func TestEachErrorOfALoadIsOurs(t *testing.T) {
	for _, n := range []int{1, batchJobs, 3 * batchJobs} {
		jobs := slices.Values(slices.Repeat([]carillon.Job{{Target: carillon.WorkerQueue("q")}}, n))
		_, err := (&Client{service: cutLoad{}}).PutStream(t.Context(), jobs)
		if !errors.Is(err, carillon.Unavailable) {
			t.Errorf("%d jobs: %v", n, err)
		}
	}
}

// TestOverAConnectionThereIsACluster: the client has all calls, whoever made the connection.
func TestOverAConnectionThereIsACluster(t *testing.T) {
	conn, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := Over(conn).ClusterStatus(t.Context()); err == nil {
		t.Error("nobody answered")
	}
}
