package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/cluster"
)

// Options configure a client of another node.
type Options struct {
	Secret string           // see [Secret]
	Now    func() time.Time // the store's clock, as this node knows it
	// MaxMessage is the most bytes of a caller's message to a node: answers may be as large as what was
	// asked. Default: gRPC's usual limit.
	MaxMessage int
	// Dial are further options for gRPC. Default: none.
	Dial []grpc.DialOption
}

// How a connection is kept. A node that does not answer, for example because it is stopped or cut off, is
// detected within about pingTimeout + pingInterval. gRPC's own pings are too slow for that.
const (
	pingInterval   = 500 * time.Millisecond
	pingTimeout    = 2 * time.Second
	keepaliveTime  = 10 * time.Second // gRPC's minimum
	connectTimeout = 1500 * time.Millisecond
	firstBackoff   = 20 * time.Millisecond
	maxBackoff     = 500 * time.Millisecond
	maxAnswer      = 64 << 20 // bytes of one answer, unless a caller's message may be larger
)

// Calls are what one node asks of another, over a connection that the caller makes and keeps.
type Calls struct {
	scheduler // each of its calls is forwarded as a whole

	service peerv1.PeerServiceClient
	options Options
}

// scheduler is the part of the public API that nodes forward to each other.
type scheduler interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	carillon.Calendars
	carillon.Timetables
}

// Over makes the calls over a connection, and turns its errors into those of [cluster.Peer]. A connection
// that supports [grpc.Peer] reports with it that a call may have been sent.
func Over(conn grpc.ClientConnInterface, o Options) *Calls {
	c := &Calls{options: o, service: peerv1.NewPeerServiceClient(asker{secret: o.Secret, over: conn})}
	c.scheduler = client.Over(forwarder{calls: c})
	return c
}

// Client is another node of the cluster.
type Client struct {
	*Calls

	conn *grpc.ClientConn
	// For pings alone: calls that wait for the node's store may be as many as a connection takes.
	pinged *grpc.ClientConn
	broken chan struct{}
	life   context.Context // for the pings
	end    context.CancelFunc
	pings  sync.WaitGroup
}

var _ cluster.Peer = (*Client)(nil)

// Dial makes a client of the node at address, host:port. It does not wait for a connection.
func Dial(address string, o Options) (*Client, error) {
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(max(maxAnswer, sizeParts*o.MaxMessage))),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: firstBackoff, Multiplier: 2, Jitter: 0.2,
				MaxDelay: maxBackoff},
			MinConnectTimeout: connectTimeout,
		}),
		// For a connection that a device in between has forgotten. A server disconnects clients that ping
		// twice within 5 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: pingTimeout,
			PermitWithoutStream: true}),
		grpc.WithDisableServiceConfig(), // the name service has no say
		grpc.WithNoProxy(),              // nor has the environment
	}
	dial = append(dial, o.Dial...)
	c := &Client{broken: make(chan struct{})}
	var err error
	if c.conn, err = grpc.NewClient(address, dial...); err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if c.pinged, err = grpc.NewClient(address, dial...); err != nil {
		return nil, errors.Join(fmt.Errorf("address %q: %w", address, err), c.conn.Close())
	}
	c.Calls = Over(c.conn, o)
	c.life, c.end = context.WithCancel(context.Background())
	c.pings.Go(c.ping)
	return c, nil
}

// Broken implements [cluster.Peer].
func (c *Client) Broken() <-chan struct{} { return c.broken }

// Close implements [cluster.Peer].
func (c *Client) Close() error {
	c.end()
	c.pings.Wait()
	for _, conn := range []*grpc.ClientConn{c.conn, c.pinged} {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // it is closed already
			return fmt.Errorf("close the connection: %w", err)
		}
	}
	return nil
}

// ping asks for the node's status periodically. The first ping without an answer breaks the connection, and
// so ends the calls that wait on it.
func (c *Client) ping() {
	t := time.NewTicker(pingInterval)
	defer t.Stop()
	service := Over(c.pinged, c.options).service
	for {
		select {
		case <-t.C:
		case <-c.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.life, pingTimeout)
		_, err := service.Status(ctx, &peerv1.StatusRequest{NotAfter: c.notAfter(ctx)})
		cancel()
		switch {
		case c.life.Err() != nil:
			return
		case err != nil:
			_ = c.conn.Close() // the first Close; that of Client comes later
			close(c.broken)
			return
		}
	}
}

// notAfter returns until when a request may arrive.
func (c *Calls) notAfter(ctx context.Context) *timestamppb.Timestamp {
	wait := arriveWithin
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until))
	}
	return timestamppb.New(c.options.Now().Add(wait + clockSlack))
}

// asker is the connection for calls between nodes: it sends the secret and translates errors.
type asker struct {
	noStreams
	secret string
	over   grpc.ClientConnInterface
}

// Invoke implements [grpc.ClientConnInterface].
func (a asker) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	var reached grpcpeer.Peer
	outgoing := metadata.AppendToOutgoingContext(wire.Outgoing(ctx), secretHeader, a.secret)
	outgoing, opts, heard := audited(outgoing, append(opts, grpc.Peer(&reached)))
	err := a.over.Invoke(outgoing, method, args, reply, opts...)
	heard()
	return understood(ctx, err, reached.Addr != nil)
}

// AsNode has the streams of a connection say that a node opens them.
func AsNode(secret string) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
		conn *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return open(metadata.AppendToOutgoingContext(ctx, secretHeader, secret), desc, conn, method, opts...)
	})
}

// noStreams is the part of a connection that there is not between nodes.
type noStreams struct{}

// NewStream implements [grpc.ClientConnInterface].
func (noStreams) NewStream(context.Context, *grpc.StreamDesc, string,
	...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, carillon.Errorf(carillon.InvalidArgument, "", "streams are not forwarded")
}
