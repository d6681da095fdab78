package daprapi

import (
	"context"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// refuse is what Dapr's scheduler says of bad input: it has no code for it.
func refuse(field, format string, args ...any) error {
	return status.Error(codes.Unknown, field+": "+fmt.Sprintf(format, args...))
}

// toStatus is err as a sidecar gets it. What only Carillon refuses is InvalidArgument; what is wrong with the
// node is logged, and the caller is not shown it. What a rate refuses has the time after which it may
// succeed, as in Carillon's own API (google.rpc.RetryInfo).
func (s *Service) toStatus(ctx context.Context, method string, err error) error {
	if err == nil || grpcapi.FromGRPC(err) {
		return err
	}
	e := wire.ToError(err)
	if e.Kind == carillon.Internal {
		s.options.Logger.ErrorContext(ctx, "call failed", "method", method, "error", err)
	}
	message := e.Message
	if e.Field != "" {
		message = e.Field + ": " + message
	}
	said := status.New(wire.GRPCCode(e.Kind), message)
	if after := e.RetryAfter; after > 0 && e.Kind == carillon.ResourceExhausted {
		// Dapr's runtime tries no call again for it; its clients get the status with all its details.
		if whole, err := said.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
			said = whole
		}
	}
	return said.Err()
}
