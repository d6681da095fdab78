package client

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Client is a scheduler in another process. It is safe for concurrent use.
type Client struct {
	conn     *grpc.ClientConn // nil if the caller owns it
	service  pb.SchedulerServiceClient
	cluster  pb.ClusterServiceClient
	events   pb.EventServiceClient
	payloads pb.PayloadServiceClient
	access   pb.AccessServiceClient
	audit    pb.AuditServiceClient
	options  []Option
	token    func(context.Context) (string, error) // of each call; nil: none is shown
	one      bool                                  // it can reach addr only
	// nodes are the addresses of all nodes, as the newest session has them; nil: none yet.
	nodes atomic.Pointer[[]string]
}

var _ carillon.Scheduler = (*Client)(nil)

// Option changes how a client connects.
type Option func(*options)

type options struct {
	credentials credentials.TransportCredentials
	maxMessage  int
	dial        []grpc.DialOption
	oneAddress  bool
	proxy       bool
	token       func(context.Context) (string, error) // nil: none
	fixed       *string                               // the token, if it is always the same
	plainToken  bool
}

// WithTransportCredentials encrypts the connection, for example by credentials.NewTLS. The node's certificate
// must have the name that the credentials have, as tls.Config.ServerName, or else the host of the address
// that is used. Default: no encryption.
func WithTransportCredentials(c credentials.TransportCredentials) Option {
	return func(o *options) { o.credentials = c }
}

// WithMaxMessage bounds the bytes of a message that the client accepts. Default 16 MiB: a page of jobs with
// their payloads.
func WithMaxMessage(bytes int) Option { return func(o *options) { o.maxMessage = bytes } }

// WithDialOptions passes options on to gRPC; they override the client's own. Credentials that have a name of
// the server belong in [WithTransportCredentials]: with several addresses it does not count here.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}

// WithOneAddress declares that the client can reach no node but the one that it dials, for example because of
// a proxy. That node then serves the client's workers for all nodes, with one more hop. By default a worker
// has a session with each node of a cluster, at the addresses by which the nodes know each other.
func WithOneAddress() Option { return func(o *options) { o.oneAddress = true } }

// WithProxyFromEnvironment makes the client use the proxy that HTTPS_PROXY and NO_PROXY name. Default: it
// connects directly, whatever the environment says.
func WithProxyFromEnvironment() Option { return func(o *options) { o.proxy = true } }

// Connection parameters of the client.
const (
	defaultMaxMessage = 16 << 20
	pingInterval      = 20 * time.Second // gRPC makes less than 10 s into 10 s
	pingTimeout       = 10 * time.Second
	connectTimeout    = 5 * time.Second
	firstBackoff      = 50 * time.Millisecond
	maxBackoff        = 5 * time.Second
)

// Dial returns a client of the node at addr: host:port, a host alone for [DefaultPort], or several of them
// separated by commas, of which the first that answers is used. It connects with the first call, and again
// whenever the connection is lost; a call made meanwhile waits for a few seconds.
func Dial(addr string, opts ...Option) (*Client, error) {
	o := options{credentials: insecure.NewCredentials(), maxMessage: defaultMaxMessage}
	for _, f := range opts {
		f(&o)
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(o.credentials),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(o.maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout,
			PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: firstBackoff, Multiplier: 2, Jitter: 0.2,
				MaxDelay: maxBackoff},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDisableServiceConfig(), // the name service must not configure the client
		grpc.WithChainUnaryInterceptor(call),
	}
	if err := o.checkToken(addr); err != nil {
		return nil, err
	}
	if o.token != nil {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{o.token}))
	}
	if !o.proxy {
		dial = append(dial, grpc.WithNoProxy())
	}
	dialled, more, err := target(addr, nameIn(o.credentials))
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(dialled, slices.Concat(dial, more, o.dial)...)
	if err != nil {
		return nil, carillon.Errorf(carillon.InvalidArgument, "addr", "%.64q: %w", addr, err)
	}
	return &Client{conn: conn, service: pb.NewSchedulerServiceClient(conn),
		cluster: pb.NewClusterServiceClient(conn), events: pb.NewEventServiceClient(conn),
		payloads: pb.NewPayloadServiceClient(conn), access: pb.NewAccessServiceClient(conn),
		audit: pb.NewAuditServiceClient(conn), options: opts, one: o.oneAddress, token: o.token}, nil
}

// nameIn returns the name of the server that credentials have; "": they go by its address.
func nameIn(c credentials.TransportCredentials) string {
	if c == nil {
		return "" // gRPC refuses it
	}
	return c.Info().ServerName //nolint:staticcheck // gRPC goes by it, too
}

// Over returns a client that uses a connection of its caller, who keeps and closes it. Its errors stay as
// they are.
func Over(conn grpc.ClientConnInterface) *Client {
	return &Client{service: pb.NewSchedulerServiceClient(conn), cluster: pb.NewClusterServiceClient(conn),
		events: pb.NewEventServiceClient(conn), payloads: pb.NewPayloadServiceClient(conn),
		access: pb.NewAccessServiceClient(conn), audit: pb.NewAuditServiceClient(conn)}
}

// Close ends the connection, and with it all calls and sessions.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close the connection: %w", err)
	}
	return nil
}

// What a node answers, as a caller gets it.
var (
	job        = answer(wire.JobFromProto)
	putResult  = answer(wire.PutFromProto)
	run        = answer(wire.RunFromProto)
	skipResult = answer(wire.SkipFromProto)
	backfill   = answer(wire.BackfillFromProto)
)

// answer returns what converts an answer, unless the call has failed.
func answer[M, T any](fromProto func(M) (T, error)) func(M, error) (T, error) {
	return func(m M, err error) (result T, _ error) {
		if err != nil {
			return result, err
		}
		return fromProto(m)
	}
}

// Preview returns when a schedule would fire, as the node parses it.
func (c *Client) Preview(ctx context.Context, q carillon.PreviewQuery) ([]time.Time, error) {
	m, err := c.service.PreviewSchedule(ctx, wire.PreviewToProto(&q))
	return wire.TimesFromProto(m), err
}
