package grpcapi

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// AuditService is carillon.v1.AuditService over an Audit.
type AuditService struct {
	pb.UnsafeAuditServiceServer // a new call fails to compile until it is here

	audit carillon.Audit
}

var _ pb.AuditServiceServer = (*AuditService)(nil)

// NewAuditService is the service over a.
func NewAuditService(a carillon.Audit) *AuditService { return &AuditService{audit: a} }

// ListAudit implements the rpc.
func (s *AuditService) ListAudit(ctx context.Context,
	m *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	q, err := wire.AuditQueryFromProto(m)
	if err != nil {
		return nil, err
	}
	page, err := s.audit.ListAudit(ctx, q)
	return wire.AuditPageToProto(page), err
}

// VerifyAudit implements the rpc.
func (s *AuditService) VerifyAudit(ctx context.Context,
	m *pb.VerifyAuditRequest) (*pb.VerifyAuditResponse, error) {
	heads := make([]carillon.AuditHead, len(m.GetHeads()))
	for i, text := range m.GetHeads() {
		var err error
		if heads[i], err = carillon.ParseAuditHead(text); err != nil {
			return nil, carillon.WithField(err, fmt.Sprintf("heads[%d]", i))
		}
	}
	all, err := s.audit.VerifyAudit(ctx, heads)
	return wire.AuditChainsToProto(all), err
}

// refused says that a call was refused for what its caller has shown.
func (s *Service) refused(ctx context.Context, method string, m any, err error) {
	if s.options.Audit != nil {
		s.options.Audit.Refused(ctx, method, m, err)
	}
}

// audited begins a call; see [access.Auditor]. Services of other protocols record theirs themselves, as they
// know what Carillon calls what a request is about.
func (s *Service) audited(ctx context.Context, method string, m any) (_ context.Context,
	end func(reply any, err error) error, err error) {
	if s.options.Audit == nil || !strings.HasPrefix(method, "/"+contract) {
		return ctx, func(_ any, err error) error { return err }, nil
	}
	return s.options.Audit.Begin(ctx, method, m)
}

// auditedStream returns a stream that is recorded with its first message, as one call; recorded takes how it
// ended. Those of PutJobs are a call each, which the service itself has recorded.
func (s *Service) auditedStream(ss grpc.ServerStream,
	method string) (_ grpc.ServerStream, recorded func(error) error) {
	if s.options.Audit == nil || method != pb.PayloadService_PutPayload_FullMethodName {
		return ss, func(err error) error { return err }
	}
	a := &auditedStream{ServerStream: ss, begin: func(m any) (func(any, error) error, error) {
		_, end, err := s.options.Audit.Begin(ss.Context(), method, m)
		return end, err
	}}
	return a, a.ended
}

// auditedStream is such a stream. Its answer waits until the call is recorded.
type auditedStream struct {
	grpc.ServerStream
	begin func(m any) (end func(any, error) error, err error)

	mu  sync.Mutex // what is received may still be, when the handler has returned
	end func(any, error) error
}

// RecvMsg implements [grpc.ServerStream].
func (s *auditedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		return nil
	}
	var err error
	s.end, err = s.begin(m)
	return err
}

// SendMsg implements [grpc.ServerStream].
func (s *auditedStream) SendMsg(m any) error {
	if err := s.over(m, nil); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// ended takes how the handler has ended.
func (s *auditedStream) ended(err error) error {
	if err == nil {
		return nil // its answer has been recorded
	}
	return s.over(nil, err)
}

// over records how the call has ended, once.
func (s *auditedStream) over(reply any, err error) error {
	s.mu.Lock()
	end := s.end
	s.end = func(_ any, err error) error { return err }
	s.mu.Unlock()
	if end == nil {
		return err
	}
	return end(reply, err)
}
