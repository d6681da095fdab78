package daprapi

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// request is what every unary call has.
type request interface {
	proto.Message
	GetMetadata() *pb.JobMetadata
}

// answer makes a call at the address in the metadata of its request, and answers with its result. Who may not
// make it, and what it changes, is recorded here, with the errors as they are before a sidecar is told.
func answer[T any](ctx context.Context, s *Service, method string, m request,
	call func(context.Context, address) (T, error)) (result T, _ error) {
	about := named(m)
	if err := s.claim(ctx, method, m.GetMetadata().GetAppId(), about); err != nil {
		return result, s.toStatus(ctx, method, err)
	}
	ctx, end, err := s.begin(ctx, method, about)
	if err != nil {
		return result, s.toStatus(ctx, method, err)
	}
	err = grpcapi.Safely(func() error {
		a, err := daprrecord.AddressOf(m.GetMetadata())
		if err == nil {
			result, err = call(ctx, address{a})
		}
		return err
	})
	if unrecorded := end(result, kindly(err)); err == nil {
		err = unrecorded
	}
	return result, s.toStatus(ctx, method, err)
}

// named is a request with the name of the job that it is about, or what those of its jobs begin with.
func named(m request) access.Named {
	about := access.Named{Message: m, Namespace: m.GetMetadata().GetNamespace()}
	a, err := daprrecord.AddressOf(m.GetMetadata())
	if err != nil {
		return about // it is about nothing
	}
	switch m := m.(type) {
	case interface{ GetName() string }:
		about.Resource = a.Key(m.GetName()).Name
	case *pb.DeleteByNamePrefixRequest:
		about.Resource = underPrefix(a, m.GetNamePrefix())
	case *pb.DeleteByMetadataRequest:
		about.Resource = a.Prefix(m.GetIdPrefixMatch())
	}
	return about
}

// underPrefix returns what names at an address begin with that begin so for the sidecar.
func underPrefix(a daprrecord.Address, namePrefix string) string {
	prefix := a.Prefix(false)
	if namePrefix != "" {
		prefix += carillon.EscapeLevel(namePrefix)
	}
	return prefix
}

// begin begins a call whose caller may be who it says; see [access.Auditor].
func (s *Service) begin(ctx context.Context, method string, m access.Named) (_ context.Context,
	end func(reply any, err error) error, err error) {
	if s.options.Audit == nil {
		return ctx, func(_ any, err error) error { return err }, nil
	}
	return s.options.Audit.Begin(s.by(ctx), access.DaprScheduler+method, m)
}

// refused says that a caller was refused for who it is, or is not.
func (s *Service) refused(ctx context.Context, method string, m access.Named, err error) {
	if s.options.Audit != nil {
		s.options.Audit.Refused(s.by(ctx), access.DaprScheduler+method, m, kindly(err))
	}
}

// by returns ctx with who makes a call, for the record, if callers have to prove it.
func (s *Service) by(ctx context.Context) context.Context {
	p, ok := peer.FromContext(ctx)
	if !ok || s.options.Authorize == nil {
		return ctx
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || info.SPIFFEID == nil {
		return ctx
	}
	return access.With(ctx, &access.Principal{Kind: access.KindCertificate, ID: info.SPIFFEID.String()})
}

// kindly is an error with its kind, for the record: what a sidecar is told has a code alone.
func kindly(err error) error {
	if err == nil || !grpcapi.FromGRPC(err) {
		return err
	}
	if status.Code(err) == codes.Unknown { // of bad input; see refuse
		return carillon.Errorf(carillon.InvalidArgument, "", "%s", status.Convert(err).Message())
	}
	return &carillon.Error{Kind: wire.ToError(wire.ErrorFromStatus(err)).Kind, Err: err}
}
