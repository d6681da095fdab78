package client

import (
	"google.golang.org/grpc"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Over returns a client that uses a connection of its caller, who keeps and closes it. Its errors stay as
// they are.
func Over(conn grpc.ClientConnInterface) *Client {
	return &Client{service: pb.NewSchedulerServiceClient(conn)}
}
