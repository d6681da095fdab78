package grpcapi

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
)

// AccessService is carillon.v1.AccessService over an Access, which judges by the principal in ctx which keys
// the caller may know of.
type AccessService struct {
	pb.UnsafeAccessServiceServer // a new call fails to compile until it is here

	access carillon.Access
}

var _ pb.AccessServiceServer = (*AccessService)(nil)

// NewAccessService is the service over a.
func NewAccessService(a carillon.Access) *AccessService { return &AccessService{access: a} }

// CreateKey implements the rpc.
func (s *AccessService) CreateKey(ctx context.Context,
	m *pb.CreateKeyRequest) (*pb.CreateKeyResponse, error) {
	k, err := wire.NewKeyFromProto(m)
	if err != nil {
		return nil, err
	}
	created, err := s.access.CreateKey(ctx, k)
	if err != nil {
		return nil, err
	}
	return &pb.CreateKeyResponse{Key: wire.KeyToProto(&created.Key), Secret: created.Secret}, nil
}

// ListKeys implements the rpc.
func (s *AccessService) ListKeys(ctx context.Context, m *pb.ListKeysRequest) (*pb.ListKeysResponse, error) {
	page, err := s.access.ListKeys(ctx, carillon.KeyQuery{PageSize: int(m.GetPageSize()),
		PageToken: m.GetPageToken()})
	return wire.KeyPageToProto(page), err
}

// RotateKey implements the rpc.
func (s *AccessService) RotateKey(ctx context.Context,
	m *pb.RotateKeyRequest) (*pb.RotateKeyResponse, error) {
	overlap, err := wire.OverlapFromProto(m)
	if err != nil {
		return nil, err
	}
	rotated, unheard, err := s.access.RotateKey(ctx, m.GetId(), overlap)
	if err != nil {
		return nil, err
	}
	return wire.RotatedKeyToProto(&rotated, unheard), nil
}

// RevokeKey implements the rpc.
func (s *AccessService) RevokeKey(ctx context.Context,
	m *pb.RevokeKeyRequest) (*pb.RevokeKeyResponse, error) {
	unheard, err := s.access.RevokeKey(ctx, m.GetId())
	return &pb.RevokeKeyResponse{Unheard: unheard}, err
}

// identify returns ctx with the principal of a call of gRPC.
func (s *Service) identify(ctx context.Context, method string) (context.Context, error) {
	gate := s.options.Access
	if gate == nil {
		return ctx, nil
	}
	var p *access.Principal
	err := Safely(func() (err error) { // what strangers show is parsed here
		p, err = gate.Caller(ctx, method, metadata.ValueFromIncomingContext(ctx, "authorization"))
		return err
	})
	if err != nil {
		logInternal(ctx, s.options.Logger, method, err)
		s.refused(ctx, method, nil, err)
		return ctx, err
	}
	return access.With(ctx, p), nil
}

// judge refuses what the caller in ctx may not do.
func (s *Service) judge(ctx context.Context, method string, m any) error {
	if s.options.Access == nil {
		return nil
	}
	return Safely(func() error { return s.options.Access.Judge(ctx, method, m) })
}

// lost returns why a stream had to end, if that is since the caller's key has ended.
func (s *Service) lost(ctx context.Context) error {
	if s.options.Access == nil {
		return nil
	}
	return s.options.Access.Alive(ctx)
}

// judged returns a stream whose messages are judged before they are read, and that ends with the caller's
// key.
func (s *Service) judged(ss grpc.ServerStream, method string) (grpc.ServerStream, func()) {
	gate := s.options.Access
	if gate == nil {
		return ss, func() {}
	}
	ctx, end := gate.Hold(ss.Context())
	return &judgedStream{ServerStream: ss, ctx: ctx, gate: gate, method: method, refused: s.refused}, end
}

// judgedStream is such a stream. One goroutine receives.
type judgedStream struct {
	grpc.ServerStream
	ctx    context.Context
	gate   *access.Gate
	method string
	said   bool // a message has come

	refused func(ctx context.Context, method string, m any, err error)
}

// Context implements [grpc.ServerStream].
func (s *judgedStream) Context() context.Context { return s.ctx }

// RecvMsg implements [grpc.ServerStream].
func (s *judgedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.said && access.Once(s.method) {
		return s.gate.Alive(s.ctx)
	}
	s.said = true
	err := s.gate.Judge(s.ctx, s.method, m)
	if err != nil {
		s.refused(s.ctx, s.method, m, err)
	}
	return err
}

// SendMsg implements [grpc.ServerStream].
func (s *judgedStream) SendMsg(m any) error {
	if err := s.gate.Alive(s.ctx); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}
