package daprapi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// refuse is what Dapr's scheduler says of bad input: it has no code for it.
func refuse(field, format string, args ...any) error {
	return status.Error(codes.Unknown, field+": "+fmt.Sprintf(format, args...))
}

// toStatus is err as a sidecar gets it. What only Carillon refuses is InvalidArgument; what is wrong with the
// node is logged, and the caller is not shown it.
func (s *Service) toStatus(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*carillon.Error](err); !ours {
		if _, ok := status.FromError(err); ok {
			return err
		}
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
