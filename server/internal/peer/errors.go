package peer

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// errLate refuses a request that took too long to arrive.
var errLate = errors.New("the request came after its time")

// errStranger refuses a request without this cluster's secret.
var errStranger = errors.New("this is for nodes of the cluster only")

// refusals are the errors that mean that nothing was done: what this node says, its form on the wire, and
// what the caller makes of it. A stranger answers at the address of a node that is gone.
var refusals = [...]struct {
	said   error
	reason peerv1.Refusal_Reason
	heard  error
}{
	{message.ErrNotOwner, peerv1.Refusal_REASON_NOT_OWNER, message.ErrNotOwner},
	{errLate, peerv1.Refusal_REASON_LATE, cluster.ErrUnreached},
	{errStranger, peerv1.Refusal_REASON_STRANGER, cluster.ErrUnreached},
	{cluster.ErrOlder, peerv1.Refusal_REASON_OLDER, cluster.ErrOlder},
	{message.ErrNotTaken, peerv1.Refusal_REASON_NOT_TAKEN, message.ErrNotTaken},
}

// marked encodes an error for the wire. Errors that mean that nothing was done get a Refusal; others are left
// to the error handling of the gRPC server, as are those of a full store: trying again is of no use.
func marked(err error) error {
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown || errors.Is(err, store.ErrFull) {
		return err
	}
	for _, r := range refusals {
		if !errors.Is(err, r.said) {
			continue
		}
		st := status.Convert(wire.ErrorToStatus(err))
		if with, failed := st.WithDetails(&peerv1.Refusal{Reason: r.reason}); failed == nil {
			st = with
		}
		return st.Err()
	}
	return err
}

// understood turns the error of a call into a [carillon.Error] with its cause. reached says that the call may
// have been sent.
func understood(ctx context.Context, err error, reached bool) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	told := false
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *peerv1.Refusal:
			if cause := causeOf(d.GetReason()); cause != nil {
				return &carillon.Error{Kind: carillon.Unavailable, Message: st.Message(), Err: cause}
			}
		case *pb.Problem:
			told = true
		}
	}
	switch {
	case told:
		return wire.ErrorFromStatus(err)
	case ctx.Err() != nil:
		return ended(ctx, reached)
	case !reached:
		return carillon.Errorf(carillon.Unavailable, "", "the node that owns the partition cannot be reached: %w",
			fmt.Errorf("%w: %s", cluster.ErrUnreached, st.Message()))
	case st.Code() == codes.Unimplemented:
		return carillon.Errorf(carillon.Unavailable, "",
			"%w: it does not know what is asked of it; end the upgrade, and try again", cluster.ErrOlder)
	case broke(st.Code()):
		lost := carillon.Errorf(carillon.Unavailable, "",
			"the connection to the node that owns the partition broke: %w",
			fmt.Errorf("%w: %s", cluster.ErrLost, st.Message()))
		lost.Unknown = true
		return lost
	}
	known := wire.ErrorFromStatus(err)
	if e, ok := errors.AsType[*carillon.Error](known); ok && e.Kind == carillon.ResourceExhausted {
		e.Unknown = true // either the request did not fit there, or the answer here
	}
	return known
}

// causeOf returns the error that a refusal stands for; nil if it is of a later version.
func causeOf(reason peerv1.Refusal_Reason) error {
	for _, r := range refusals {
		if r.reason == reason {
			return r.heard
		}
	}
	return nil
}

// broke reports whether gRPC uses the code when a connection breaks or a server goes away.
func broke(c codes.Code) bool {
	return c == codes.Unavailable || c == codes.Canceled || c == codes.DeadlineExceeded ||
		c == codes.Internal || c == codes.Unknown
}

// ended returns the error for a call whose caller stopped waiting.
func ended(ctx context.Context, reached bool) error {
	kind, why := carillon.Canceled, "the call was cancelled before its outcome was known"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind, why = carillon.DeadlineExceeded, "the call's deadline passed before its outcome was known"
	}
	return &carillon.Error{Kind: kind, Message: why, Unknown: reached, Err: ctx.Err()}
}
