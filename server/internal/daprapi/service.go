package daprapi

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/sidecar"
)

// Options says how the face behaves. The zero value of a field is its default, given here.
type Options struct {
	// Authorize refuses callers that are not the app they say they are, with a gRPC status. Default: all are
	// believed.
	Authorize func(ctx context.Context, namespace, appID string) error
	// Hosts is where the schedulers are, host:port each, and a channel that is closed when that changes; nil:
	// it never does. No address stands for the one at which the sidecar has reached this one. Default: those
	// of the node's cluster.
	Hosts func(context.Context) (addresses []string, changed <-chan struct{})
	// Audit records who makes which calls. Default: that of the node, if it records any.
	Audit access.Auditor
	// Metrics counts what Dapr's scheduler counts. Default: nothing does.
	Metrics Metrics
	// Logger is told what went wrong here. Default: nothing is.
	Logger *slog.Logger
	// Now is the node's clock. Default [time.Now].
	Now func() time.Time
	// StallTimeout is after how long a sidecar that does not read loses its stream. Default 30 s.
	StallTimeout time.Duration
	// ListBytes bounds the answer of ListJobs. Default 256 MiB.
	ListBytes int
}

const (
	defaultStallTimeout = 30 * time.Second
	defaultListBytes    = 256 << 20
)

func (o Options) withDefaults() Options {
	o.Metrics = cmp.Or[Metrics](o.Metrics, nobody{})
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.StallTimeout = cmp.Or(o.StallTimeout, defaultStallTimeout)
	o.ListBytes = cmp.Or(o.ListBytes, defaultListBytes)
	return o
}

// Service is dapr.proto.scheduler.v1.Scheduler over a node.
type Service struct {
	pb.UnsafeSchedulerServer // a new call fails to compile until it is here

	jobs    carillon.Jobs
	connect func(sidecar.Hello) (*sidecar.Session, error)
	options Options

	streams *streams
	all     cluster.Settler // on all nodes
	leave   sync.Once
	left    chan struct{} // closed by Stop
}

var _ pb.SchedulerServer = (*Service)(nil)

// New is the service over a node's jobs; connect opens the session of a sidecar.
func New(jobs carillon.Jobs, connect func(sidecar.Hello) (*sidecar.Session, error), o Options) *Service {
	s := &Service{jobs: jobs, connect: connect, options: o.withDefaults(), streams: newStreams(),
		left: make(chan struct{})}
	s.all = s.streams.settle
	return s
}

// Register puts the service on a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { pb.RegisterSchedulerServer(r, s) }

// Stop ends the streams of WatchHosts, and those of WatchJobs that have not said who they are; the others end
// with their sessions, when the node's hub is closed. A sidecar that loses WatchHosts keeps its streams to
// the other nodes until another one tells it where they are.
func (s *Service) Stop() { s.leave.Do(func() { close(s.left) }) }

// Node is what the service is over.
type Node interface {
	Remote() carillon.Scheduler
	Cluster() carillon.Cluster
	Hub() *dispatch.Hub
	Auditor() access.Auditor
	SettleAll(ctx context.Context, from string, told bool)
	OnSettle(f cluster.Settler)
	sidecar.Limits
}

// Serve puts the service over a node on a gRPC listener; stop ends its streams.
func Serve(n Node, r grpc.ServiceRegistrar, o Options) (stop func()) {
	connect := func(h sidecar.Hello) (*sidecar.Session, error) {
		return sidecar.Open(n.Hub(), n, h, sidecar.Options{})
	}
	if o.Audit == nil {
		o.Audit = n.Auditor()
	}
	s := New(n.Remote(), connect, o)
	n.OnSettle(s.streams.settle)
	s.all = n.SettleAll
	unfollow := func() {}
	if o.Hosts == nil {
		s.options.Hosts, unfollow = follow(n.Cluster(), s.options.Logger)
	}
	s.Register(r)
	return func() {
		s.Stop()
		unfollow()
	}
}
