package peer

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/wire"
)

// method runs a unary call of the public API; its decode function fills the request.
type method = grpc.MethodHandler

// methods returns the unary calls of the public API, by name.
func methods() map[string]method {
	all := map[string]method{}
	for _, m := range pb.SchedulerService_ServiceDesc.Methods {
		all[m.MethodName] = m.Handler
	}
	return all
}

// methodOf returns the name of a method without its service.
func methodOf(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }

// Forward implements the rpc. The time within which the request must arrive does not bound the call; the
// caller's deadline does.
func (s *Server) Forward(ctx context.Context, m *peerv1.ForwardRequest) (*peerv1.ForwardResponse, error) {
	_, cancel, err := s.admit(ctx, m)
	if err != nil {
		return nil, marked(err)
	}
	defer cancel()
	do, known := s.methods[m.GetMethod()]
	if !known {
		return nil, marked(older("the method " + m.GetMethod()))
	}
	if m.GetSeenAt() != nil {
		ctx = engine.WithSeen(ctx, m.GetSeenAt().AsTime())
	}
	ctx = context.WithValue(ctx, replaceKey{}, m.GetReplace())
	reply, err := do(s.service, ctx, func(into any) error { return decode(m.GetMessage(), into) }, nil)
	if err != nil {
		return nil, marked(err)
	}
	message, err := encode(reply)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", m.GetMethod(), err)
	}
	return &peerv1.ForwardResponse{Message: message}, nil
}

func decode(message []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", into)
	}
	if err := proto.Unmarshal(message, m); err != nil {
		return carillon.Errorf(carillon.InvalidArgument, "message", "%w", err)
	}
	return understand(m)
}

func encode(reply any) ([]byte, error) {
	m, ok := reply.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", reply)
	}
	return proto.Marshal(m)
}

// onlyHere serves the node's engine as a scheduler without workers, whose sessions are not forwarded.
type onlyHere struct{ cluster.Services }

// PutJob implements [carillon.Jobs], with the option that the public API does not have.
func (h onlyHere) PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.PutResult, error) {
	if isReplace(ctx) {
		opts = append(opts, carillon.Replace())
	}
	return h.Services.PutJob(ctx, job, opts...)
}

// Connect implements [carillon.Work].
func (onlyHere) Connect(context.Context, carillon.Hello) (carillon.Session, error) {
	return nil, wire.NotSupported("connect")
}
