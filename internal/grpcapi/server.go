package grpcapi

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// Options says how the face behaves. The zero value of a field is its default, given here.
type Options struct {
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // the node's clock; default time.Now

	CallTimeout time.Duration // of a unary call whose caller gives no deadline; default 1 min

	MaxMessage      int           // bytes of one received message; default 4 MiB
	MaxStreams      uint32        // per connection; default 1,000
	ConnectionAge   time.Duration // after it a connection, and a worker's stream, is asked to go; default 30 min
	ConnectionGrace time.Duration // after it what is still there is cut; default 1 min
	StallTimeout    time.Duration // a worker that has not read for so long loses its stream; default 30 s
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.CallTimeout = orDefault(o.CallTimeout, time.Minute)
	o.MaxMessage = orDefault(o.MaxMessage, 4<<20)
	o.MaxStreams = orDefault(o.MaxStreams, 1000)
	o.ConnectionAge = orDefault(o.ConnectionAge, 30*time.Minute)
	o.ConnectionGrace = orDefault(o.ConnectionGrace, time.Minute)
	o.StallTimeout = orDefault(o.StallTimeout, 30*time.Second)
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Limits that nobody has asked to change.
const (
	maxHeaderList    = 16 << 10
	minPingInterval  = 10 * time.Second // a client that pings more often is cut
	pingInterval     = 30 * time.Second // of an idle connection, to find dead peers
	pingTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
)

// Server is a gRPC server with the service, health and reflection on it.
type Server struct {
	*grpc.Server
	Health *health.Server // "serving" from the start; its Shutdown says "not serving" before the server stops
}

// NewServer makes a server of s; extra options, such as credentials, come last.
func NewServer(s *Service, extra ...grpc.ServerOption) *Server {
	o := s.options
	options := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.stream),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      o.ConnectionAge,
			MaxConnectionAgeGrace: o.ConnectionGrace,
			Time:                  pingInterval,
			Timeout:               pingTimeout,
		}),
	}
	server := &Server{Server: grpc.NewServer(append(options, extra...)...), Health: health.NewServer()}
	pb.RegisterSchedulerServiceServer(server, s)
	healthpb.RegisterHealthServer(server, server.Health)
	server.Health.SetServingStatus(pb.SchedulerService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	reflection.Register(server)
	return server
}
