package message

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon"
)

// Message is what a partition is asked by another partition, or by another node on behalf of a caller. The
// types of this package are all there are. To add one: write its type here, what serves it in package engine
// (messages.go), its form on the wire in package peer (messages.go), and its rpc in the proto.
//
// A message can be repeated without harm, unless it is [Once].
type Message interface {
	message()
}

// Query is a message whose reply is an R.
type Query[R any] interface {
	Message
	replies(R)
}

// Once is a message that must not be carried out twice.
type Once interface {
	Message
	once()
}

// Send sends a message to a partition and returns the reply.
func Send[R any](ctx context.Context, to Partitions, p int, m Query[R]) (R, error) {
	reply, err := to.Ask(ctx, p, m)
	r, ok := reply.(R)
	if !ok && err == nil {
		err = carillon.Errorf(carillon.Internal, "", "the reply to %T is %T", m, reply)
	}
	return r, err
}

// Partitions is what partitions ask of each other, on whichever node they are. A node's engine answers for
// the partitions that it owns and refuses the others with [ErrNotOwner]. A router finds the owner, and
// retries until ctx ends as long as nothing has been done. Errors are [carillon.Error]; one without Unknown
// says that the request has certainly not been carried out. A request that reaches a partition after ctx has
// ended is not carried out.
type Partitions interface {
	// Ask sends a message to a partition. [Send] does so with the type of the reply.
	Ask(ctx context.Context, p int, m Message) (reply any, err error)
}

// ErrNotOwner says that this node does not own the partition that a call is for. It is wrapped in an
// Unavailable [carillon.Error] without Unknown: nothing was done, and the owner may be asked.
var ErrNotOwner = errors.New("this node does not own the partition")

// ErrNotTaken says that the store has certainly not taken a change: this node has no term for the partition,
// the lease ran out before anything was sent, or what the call needs could not be read. It is wrapped in an
// Unavailable [carillon.Error] without Unknown: a later try may find another owner, or a term.
var ErrNotTaken = errors.New("the store did not take the change")
