package daprapi

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// refuse is what Dapr's scheduler says of bad input: it has no code for it.
func refuse(field, format string, args ...any) error {
	return status.Error(codes.Unknown, field+": "+fmt.Sprintf(format, args...))
}

// toStatus is err as a sidecar gets it. What only Carillon refuses is InvalidArgument; what is wrong with the
// node is logged, and the caller is not shown it.
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
	return status.Error(wire.GRPCCode(e.Kind), message)
}
