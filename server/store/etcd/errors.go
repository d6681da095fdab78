package etcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon/server/store"
)

// callError is the error of a call to etcd.
type callError struct {
	err  error
	sent bool // the request may have left this node
}

func (e *callError) Error() string { return rpctypes.ErrorDesc(e.err) }
func (e *callError) Unwrap() error { return e.err }

// refused are the codes with which etcd answers instead of beginning a write. Unavailable is not one of them:
// it also means that a write was proposed and its outcome did not come in time.
var refused = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.FailedPrecondition: true, codes.PermissionDenied: true,
	codes.Unauthenticated: true, codes.ResourceExhausted: true, codes.Unimplemented: true, codes.NotFound: true,
}

// notBegun reports whether a write with this error has certainly not been done.
func notBegun(err error) bool {
	call, ok := errors.AsType[*callError](err)
	if !ok {
		return false
	}
	// no leader: a member refuses who asks for one before it does anything else
	return !call.sent || refused[status.Code(call.err)] || is(err, rpctypes.ErrGRPCNoLeader)
}

// is reports whether an error of a call is an answer of etcd.
func is(err, answer error) bool {
	call, ok := errors.AsType[*callError](err)
	return ok && rpctypes.ErrorDesc(call.err) == rpctypes.ErrorDesc(answer)
}

// elsewhere reports whether another member may do better with a request that was not begun.
func elsewhere(err error) bool {
	call, ok := errors.AsType[*callError](err)
	return ok && notBegun(err) && (status.Code(call.err) == codes.Unavailable ||
		is(err, rpctypes.ErrGRPCNotSupportedForLearner) || is(err, rpctypes.ErrGRPCRequestTooManyRequests))
}

// failure is the error of a call that is not an Apply, or of an Apply that certainly changed nothing.
func failure(err error) error { return fmt.Errorf("store: etcd: %w", err) }

// applyFailure says how an Apply ended that ended with an error of a call.
func applyFailure(err error) error {
	switch {
	case is(err, rpctypes.ErrGRPCNoSpace):
		return fmt.Errorf("%w: etcd: %w", store.ErrFull, err)
	case notBegun(err):
		return failure(err)
	}
	return fmt.Errorf("%w: etcd: %w", store.ErrUnknown, err)
}

// away reports whether an error of a start may pass: no member can be reached, or none leads.
func away(err error) bool {
	call, ok := errors.AsType[*callError](err)
	if !ok {
		return false
	}
	code := status.Code(call.err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// damaged says that a key has not what was written there.
func damaged(key []byte, err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return fmt.Errorf("the key %q: %w", key, err)
	}
	return fmt.Errorf("%w: the key %q: %w", store.ErrDamaged, key, err)
}
