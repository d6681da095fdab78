package client

import (
	"google.golang.org/grpc"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Over makes a client of a connection that its caller has made, keeps and closes, and whose errors it leaves as they are.
func Over(conn grpc.ClientConnInterface) *Client {
	return &Client{service: pb.NewSchedulerServiceClient(conn)}
}
