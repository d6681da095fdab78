package follow

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/transfer"
)

// mostMessage is how many bytes a message may have: a batch with a few payloads, or some changes.
const mostMessage = 256 << 20

// pingInterval is how often it is asked whether a node is there, and how long it may take to answer.
const pingInterval = 10 * time.Second

// Call calls a node at an address, host:port, with the secret of the store's nodes. Whether the node answers
// is seen when something is received from it.
func Call(ctx context.Context, name, address, secret string,
	over credentials.TransportCredentials) transfer.Node {
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(over),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostMessage)),
		// A node that has gone without a word is missed soon. Nodes refuse who asks more often.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingInterval}),
		grpc.WithDisableServiceConfig(), // the name service has no say
		grpc.WithNoProxy(),              // nor has the environment
	)
	if err != nil {
		return transfer.Node{Name: name, Stream: noCall{err}, Close: func() error { return nil }}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, secretHeader, secret)
	n := transfer.Node{Name: name, Close: conn.Close}
	if stream, err := peerv1.NewFollowServiceClient(conn).Follow(ctx); err != nil {
		n.Stream = noCall{fmt.Errorf("%s: %s", address, status.Convert(err).Message())}
	} else {
		n.Stream = plainErrors{stream}
	}
	return n
}

// noCall is a call that could not be made.
type noCall struct{ err error }

// Send implements [transfer.Stream].
func (n noCall) Send(*peerv1.FollowRequest) error { return n.err }

// Recv implements [transfer.Stream].
func (n noCall) Recv() (*peerv1.FollowResponse, error) { return nil, n.err }

// plainErrors turns the errors of a call into Carillon's.
type plainErrors struct {
	grpc.BidiStreamingClient[peerv1.FollowRequest, peerv1.FollowResponse]
}

// Recv implements [transfer.Stream].
func (p plainErrors) Recv() (*peerv1.FollowResponse, error) {
	r, err := p.BidiStreamingClient.Recv()
	if err != nil {
		err = wire.ErrorFromStatus(err)
	}
	return r, err
}
