package peer

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/grpcapi"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/internal/wire"
)

// Served is what a node offers to other nodes.
type Served struct {
	Services cluster.Services // of its own engine: nothing is forwarded again
	Control  cluster.Control
	Secret   string           // see [Secret]
	Now      func() time.Time // the store's clock, as this node knows it
	// Options of the API over Services, which serves forwarded calls.
	Options grpcapi.Options
}

// Server is this node as other nodes see it. Panics, deadlines and message sizes are handled by the gRPC
// server that it is registered on, which is one of package grpcapi.
type Server struct {
	peerv1.UnsafePeerServiceServer // a new rpc fails to compile until it is implemented here

	served  Served
	methods map[string]method
	service *grpcapi.Service
}

var _ peerv1.PeerServiceServer = (*Server)(nil)

// NewServer makes the server.
func NewServer(s Served) *Server {
	return &Server{served: s, methods: methods(), service: grpcapi.NewService(onlyHere{s.Services}, s.Options)}
}

// request is what all requests have in common.
type request interface {
	proto.Message
	GetNotAfter() *timestamppb.Timestamp
}

// known checks that the caller is a node of this cluster.
func (s *Server) known(ctx context.Context) error {
	secret := metadata.ValueFromIncomingContext(ctx, secretHeader)
	if len(secret) != 1 || subtle.ConstantTimeCompare([]byte(secret[0]), []byte(s.served.Secret)) != 1 {
		return carillon.Errorf(carillon.Unauthenticated, "", "%w", errStranger)
	}
	return nil
}

// admit also checks that the request has arrived in time. The returned ctx ends when the request may not be
// begun any more.
func (s *Server) admit(ctx context.Context, r request) (context.Context, context.CancelFunc, error) {
	if err := s.known(ctx); err != nil {
		return nil, nil, err
	}
	if err := understand(r); err != nil {
		return nil, nil, err
	}
	left := r.GetNotAfter().AsTime().Sub(s.served.Now())
	if left <= 0 {
		return nil, nil, carillon.Errorf(carillon.Unavailable, "not_after", "%w, by %v", errLate, -left)
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	return ctx, cancel, nil
}

// serve admits a request and runs do.
func serve[T any](ctx context.Context, s *Server, r request, do func(ctx context.Context) (T, error)) (answer T, err error) {
	bounded, cancel, err := s.admit(ctx, r)
	if err != nil {
		return answer, marked(err)
	}
	defer cancel()
	answer, err = do(bounded)
	return answer, marked(err)
}

// Status implements the rpc. It is answered however late the request arrives: a clock that is off is no
// reason to consider a node dead.
func (s *Server) Status(ctx context.Context, _ *peerv1.StatusRequest) (*peerv1.StatusResponse, error) {
	if err := s.known(ctx); err != nil {
		return nil, marked(err)
	}
	status, err := s.served.Control.Status(ctx)
	return statusToProto(status), marked(err)
}

// Look implements the rpc.
func (s *Server) Look(ctx context.Context, m *peerv1.LookRequest) (*peerv1.LookResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.LookResponse, error) {
		return &peerv1.LookResponse{}, s.served.Control.Look(ctx)
	})
}

// SetDraining implements the rpc.
func (s *Server) SetDraining(ctx context.Context, m *peerv1.SetDrainingRequest) (*peerv1.SetDrainingResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.SetDrainingResponse, error) {
		return &peerv1.SetDrainingResponse{}, s.served.Control.SetDraining(ctx, m.GetNonce(), m.GetOn())
	})
}

// ReloadNamespace implements the rpc.
func (s *Server) ReloadNamespace(ctx context.Context, m *peerv1.ReloadNamespaceRequest) (*peerv1.ReloadNamespaceResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ReloadNamespaceResponse, error) {
		return &peerv1.ReloadNamespaceResponse{}, s.served.Control.ReloadNamespace(ctx, m.GetName())
	})
}

// Register implements the rpc.
func (s *Server) Register(ctx context.Context, m *peerv1.RegisterRequest) (*peerv1.RegisterResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RegisterResponse, error) {
		edges := make([]partition.Dependency, len(m.GetEdges()))
		for i, e := range m.GetEdges() {
			edges[i] = edgeFromProto(e)
		}
		exist, err := s.served.Services.Register(ctx, int(m.GetPartition()), edges)
		return &peerv1.RegisterResponse{Exist: exist}, err
	})
}

// Release implements the rpc.
func (s *Server) Release(ctx context.Context, m *peerv1.ReleaseRequest) (*peerv1.ReleaseResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ReleaseResponse, error) {
		by, err := identity.ParseRun(m.GetBy())
		if err != nil {
			return nil, carillon.WithField(err, "by")
		}
		letter := partition.Notice{Dependency: edgeFromProto(m.GetEdge()), By: by, Stamp: m.GetStamp()}
		answer, err := s.served.Services.Release(ctx, int(m.GetPartition()), letter)
		return &peerv1.ReleaseResponse{Answer: peerv1.ReleaseResponse_Answer(answer)}, err
	})
}

// Waits implements the rpc.
func (s *Server) Waits(ctx context.Context, m *peerv1.WaitsRequest) (*peerv1.WaitsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.WaitsResponse, error) {
		waits, err := s.served.Services.Waits(ctx, int(m.GetPartition()), edgeFromProto(m.GetEdge()))
		return &peerv1.WaitsResponse{Waits: waits}, err
	})
}

// Keeps implements the rpc.
func (s *Server) Keeps(ctx context.Context, m *peerv1.KeepsRequest) (*peerv1.KeepsResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.KeepsResponse, error) {
		job, err := wire.JobFromProto(m.GetJob())
		if err != nil {
			return nil, wire.Within("job", err)
		}
		keeps, err := s.served.Services.Keeps(ctx, int(m.GetPartition()), &job)
		return &peerv1.KeepsResponse{Keeps: keeps}, err
	})
}

// ApplyShare implements the rpc.
func (s *Server) ApplyShare(ctx context.Context, m *peerv1.ApplyShareRequest) (*peerv1.ApplyShareResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ApplyShareResponse, error) {
		share, err := shareFromProto(m)
		if err != nil {
			return nil, err
		}
		puts, err := s.served.Services.ApplyShare(ctx, int(m.GetPartition()), share)
		if other, refused := errors.AsType[*partition.OtherTermError](err); refused {
			return &peerv1.ApplyShareResponse{OtherTerm: termToProto(other.Term)}, nil
		}
		return putsToProto(puts), err
	})
}

// DeleteIn implements the rpc.
func (s *Server) DeleteIn(ctx context.Context, m *peerv1.DeleteInRequest) (*peerv1.DeleteInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.DeleteInResponse, error) {
		n, err := s.served.Services.DeleteIn(ctx, int(m.GetPartition()), m.GetNamespace(), m.GetPrefix())
		return &peerv1.DeleteInResponse{Deleted: int64(n)}, err
	})
}

// RedriveIn implements the rpc.
func (s *Server) RedriveIn(ctx context.Context, m *peerv1.RedriveInRequest) (*peerv1.RedriveInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.RedriveInResponse, error) {
		n, err := s.served.Services.RedriveIn(ctx, int(m.GetPartition()), m.GetNamespace(), m.GetJob())
		return &peerv1.RedriveInResponse{Redriven: int64(n)}, err
	})
}

// Hear implements the rpc.
func (s *Server) Hear(ctx context.Context, m *peerv1.HearRequest) (*peerv1.HearResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.HearResponse, error) {
		said, bad := saidFromProto(m)
		heard, err := s.served.Services.Relay(ctx, int(m.GetPartition()), said)
		return &peerv1.HearResponse{Accepted: heard.Accepted, Stale: append(heard.Stale, bad...)}, err
	})
}
