package daprapi

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// WatchHosts implements the rpc: it says where the schedulers are, at once and whenever that changes. What it
// says first has the sidecar close its streams to all of them, so these settle before.
func (s *Service) WatchHosts(_ *pb.WatchHostsRequest,
	stream grpc.ServerStreamingServer[pb.WatchHostsResponse]) error {
	ctx := stream.Context()
	s.hosts(ctx) // they must be known
	if ctx.Err() == nil && !s.isLeaving() {
		s.settleAll(ctx, where(ctx))
	}
	for {
		if s.isLeaving() {
			return leaving() // what it says would not last
		}
		addresses, changed := s.hosts(ctx)
		if p, ok := peer.FromContext(ctx); ok && len(addresses) == 0 && p.LocalAddr != nil {
			addresses = []string{p.LocalAddr.String()}
		}
		m := &pb.WatchHostsResponse{}
		for _, a := range addresses {
			m.Hosts = append(m.Hosts, &pb.Host{Address: a})
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.left:
			return leaving()
		}
	}
}

// hosts returns where the schedulers are, and what is closed when that changes.
func (s *Service) hosts(ctx context.Context) (addresses []string, changed <-chan struct{}) {
	if s.options.Hosts == nil {
		return nil, nil
	}
	return s.options.Hosts(ctx)
}

// isLeaving reports whether Stop was called.
func (s *Service) isLeaving() bool {
	select {
	case <-s.left:
		return true
	default:
		return false
	}
}

func leaving() error {
	return status.Error(codes.Unavailable, "this node is leaving: connect to another")
}

// followAgain is after how long a cluster is asked again that could not say who its nodes are.
const followAgain = time.Second

// followed is where the nodes of a cluster take sidecars, as it was said last.
type followed struct {
	mu        sync.Mutex
	addresses []string
	changed   chan struct{} // closed when the addresses are replaced
	shut      chan struct{} // closed when something is known; nil: it is
}

// follow keeps up with a cluster until stop: hosts is for [Options]. What was said last holds while nothing
// new can be learnt.
func follow(cluster carillon.Cluster, log *slog.Logger) (
	hosts func(context.Context) ([]string, <-chan struct{}), stop func()) {
	f := &followed{changed: make(chan struct{}), shut: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := cluster.WatchNodes(ctx, f.take)
			f.open()
			if ctx.Err() == nil {
				log.Warn("the nodes of the cluster are not known at present; sidecars keep those that they were told",
					"reason", err)
			}
			select {
			case <-time.After(followAgain):
			case <-ctx.Done():
			}
		}
	}()
	return f.hosts, func() {
		cancel()
		<-done
	}
}

// take notes where the nodes take sidecars; those that do not are left out.
func (f *followed) take(nodes []carillon.Node) error {
	var addresses []string
	for _, n := range nodes {
		if n.Sidecars != "" {
			addresses = append(addresses, n.Sidecars)
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	f.mu.Lock()
	if !slices.Equal(addresses, f.addresses) {
		f.addresses = addresses
		close(f.changed)
		f.changed = make(chan struct{})
	}
	f.mu.Unlock()
	f.open()
	return nil
}

// open has what is known told.
func (f *followed) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut != nil {
		close(f.shut)
		f.shut = nil
	}
}

// hosts returns the addresses, as soon as they may be told, and what is closed at their next change.
func (f *followed) hosts(ctx context.Context) ([]string, <-chan struct{}) {
	for {
		f.mu.Lock()
		addresses, changed, shut := f.addresses, f.changed, f.shut
		f.mu.Unlock()
		if shut == nil {
			return addresses, changed
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return addresses, changed
		}
	}
}
