package httpapi_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/server"
)

// node is a running node with both faces, on a store in memory.
type node struct {
	url  string
	conn *grpc.ClientConn
	grpc pb.SchedulerServiceClient
}

func startNode(t *testing.T) *node {
	t.Helper()
	s, err := server.New(server.Config{Store: "memory:", Partitions: 4, GRPC: "127.0.0.1:0",
		HTTP: "127.0.0.1:0", DrainGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &node{url: "http://" + s.HTTPAddr(), conn: conn, grpc: pb.NewSchedulerServiceClient(conn)}
}
