package grpcapi

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/access"
)

// Options says how the face behaves. The zero value of a field is its default, given here.
type Options struct {
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // the node's clock; default time.Now
	// Observer is told of every call of Carillon's and of Dapr's protocol. Default: nobody is.
	Observer Observer
	// Cluster is carillon.v1.ClusterService. Default: it is not served.
	Cluster *ClusterService
	// Access judges callers. Default: everybody may do everything.
	Access *access.Gate
	// Keys is carillon.v1.AccessService. Default: it is not served.
	Keys *AccessService
	// Audit records who makes which calls. Default: nobody does.
	Audit access.Auditor
	// Trail is carillon.v1.AuditService. Default: it is not served.
	Trail *AuditService
	// NoHealth leaves grpc.health.v1 out: its requests may be as large as those of all services beside it.
	NoHealth bool

	CallTimeout time.Duration // of a unary call whose caller gives no deadline; default 1 min

	// ByReference says that runs may come with a reference to their payload: workers that do not read those are
	// refused. Default: they may not.
	ByReference bool

	MaxMessage int    // bytes of one received message; default 4 MiB
	MaxStreams uint32 // per connection; default 1,000
	// after it a connection, and a worker's stream, is asked to go; default 30 min, negative: never
	ConnectionAge   time.Duration
	ConnectionGrace time.Duration // after both a stream is cut that is still there; default 1 min
	Lasting         []string      // full names of streaming methods that are not cut
	PingInterval    time.Duration // of an idle connection, to find dead peers; default 30 s
	PingTimeout     time.Duration // a peer that has not answered a ping by then is dead; default 10 s
	StallTimeout    time.Duration // a worker that has not read for so long loses its stream; default 30 s
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.MaxMessage = cmp.Or(o.MaxMessage, 4<<20)
	o.MaxStreams = cmp.Or(o.MaxStreams, 1000)
	o.ConnectionAge = cmp.Or(o.ConnectionAge, 30*time.Minute)
	o.ConnectionGrace = cmp.Or(o.ConnectionGrace, time.Minute)
	o.PingInterval = cmp.Or(o.PingInterval, 30*time.Second)
	o.PingTimeout = cmp.Or(o.PingTimeout, 10*time.Second)
	if o.ConnectionAge < 0 {
		o.ConnectionAge = math.MaxInt64
	}
	o.StallTimeout = cmp.Or(o.StallTimeout, 30*time.Second)
	return o
}

// Limits that nobody has asked to change.
const (
	maxHeaderList = 16 << 10
	// a client that pings more often is cut; gRPC for Go never does before 10 s.
	minPingInterval  = 5 * time.Second
	handshakeTimeout = 10 * time.Second
)

// Server is a gRPC server with the service, health and reflection on it.
type Server struct {
	*grpc.Server
	Health *health.Server // "serving" from the start; its Shutdown says "not serving" before the server stops
}

// NewServer makes a server of s; extra options, such as credentials, come last.
func NewServer(s *Service, extra ...grpc.ServerOption) *Server {
	server := NewFrame(s.options, extra...)
	pb.RegisterSchedulerServiceServer(server, s)
	pb.RegisterEventServiceServer(server, s.Events())
	pb.RegisterPayloadServiceServer(server, s.Payloads())
	server.Health.SetServingStatus(pb.SchedulerService_ServiceDesc.ServiceName,
		healthpb.HealthCheckResponse_SERVING)
	for _, name := range []string{pb.EventService_ServiceDesc.ServiceName,
		pb.PayloadService_ServiceDesc.ServiceName} {
		server.Health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	if s.options.Cluster != nil {
		pb.RegisterClusterServiceServer(server, s.options.Cluster)
		server.Health.SetServingStatus(pb.ClusterService_ServiceDesc.ServiceName,
			healthpb.HealthCheckResponse_SERVING)
	}
	if s.options.Keys != nil {
		pb.RegisterAccessServiceServer(server, s.options.Keys)
		server.Health.SetServingStatus(pb.AccessService_ServiceDesc.ServiceName,
			healthpb.HealthCheckResponse_SERVING)
	}
	if s.options.Trail != nil {
		pb.RegisterAuditServiceServer(server, s.options.Trail)
		server.Health.SetServingStatus(pb.AuditService_ServiceDesc.ServiceName,
			healthpb.HealthCheckResponse_SERVING)
	}
	reflection.Register(server)
	return server
}

// NewFrame makes a server with health alone, or with nothing: for services of others behind the guard and the
// limits of this package. Extra options, such as credentials, come last.
func NewFrame(o Options, extra ...grpc.ServerOption) *Server {
	o = o.withDefaults()
	s := &Service{options: o} // whose interceptors need no more
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval,
			PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: o.ConnectionAge, // without a grace: streams have theirs, see cut
			Time:             o.PingInterval,
			Timeout:          o.PingTimeout,
		}),
	}
	server := &Server{Server: grpc.NewServer(append(options, extra...)...), Health: health.NewServer()}
	if !o.NoHealth {
		healthpb.RegisterHealthServer(server, server.Health)
	}
	return server
}
