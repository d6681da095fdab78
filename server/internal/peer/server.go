package peer

import (
	"context"
	"crypto/subtle"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// Served is what a node offers to other nodes.
type Served struct {
	Services cluster.Services // of its own engine: nothing is forwarded again
	Control  cluster.Control
	// Partitions is how many the store has.
	Partitions int
	Secret     string           // see [Secret]
	Now        func() time.Time // the store's clock, as this node knows it
	// Node returns nil if the caller is a node by its certificate, otherwise why it is not. Nil: the secret is
	// all that is asked for.
	Node func(ctx context.Context) error
	// Options of the API over Services, which serves forwarded calls.
	Options grpcapi.Options
}

// Server is this node as other nodes see it. Panics, deadlines and message sizes are handled by the gRPC
// server that it is registered on, which is one of package grpcapi.
type Server struct {
	peerv1.UnsafePeerServiceServer // a new rpc fails to compile until it is implemented here

	served Served
}

var _ peerv1.PeerServiceServer = (*Server)(nil)

// NewServer makes the server.
func NewServer(s Served) *Server {
	return &Server{served: s}
}

// request is what all requests have in common.
type request interface {
	proto.Message
	GetNotAfter() *timestamppb.Timestamp
}

// known checks that the caller is a node of this cluster.
func (s *Server) known(ctx context.Context) error { return Known(ctx, s.served.Secret, s.served.Node) }

// Known returns nil if a call comes from a node of the cluster: it has the secret and, unless node is nil, a
// certificate of one.
func Known(ctx context.Context, secret string, node func(context.Context) error) error {
	said := metadata.ValueFromIncomingContext(ctx, secretHeader)
	if len(said) != 1 || subtle.ConstantTimeCompare([]byte(said[0]), []byte(secret)) != 1 {
		return carillon.Errorf(carillon.Unauthenticated, "", "%w", errStranger)
	}
	if node == nil {
		return nil
	}
	if err := node(ctx); err != nil {
		return carillon.Errorf(carillon.Unauthenticated, "", "%w: %w", errStranger, err)
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
func serve[T any](ctx context.Context, s *Server, r request,
	do func(ctx context.Context) (T, error)) (answer T, err error) {
	bounded, cancel, err := s.admit(ctx, r)
	if err != nil {
		return answer, marked(err)
	}
	defer cancel()
	heard, told, err := hearAudited(bounded)
	if err != nil {
		return answer, marked(err)
	}
	answer, err = do(heard)
	told()
	return answer, marked(err)
}
