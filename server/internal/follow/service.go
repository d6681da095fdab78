package follow

import (
	"context"
	"crypto/subtle"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// secretHeader carries the secret of the nodes of a cluster.
const secretHeader = "carillon-peer-secret"

// service serves what is copied.
type service struct {
	peerv1.UnsafeFollowServiceServer

	of     Source
	secret string
	node   func(context.Context) error
}

// Register registers the service at a gRPC server. The secret is that of the nodes of the cluster (package
// peer). node returns nil if the caller is a node by its certificate, otherwise why it is not; nil: the
// secret is all that is asked for.
func Register(r grpc.ServiceRegistrar, of Source, secret string, node func(context.Context) error) {
	peerv1.RegisterFollowServiceServer(r, &service{of: of, secret: secret, node: node})
}

// admit refuses strangers: what is copied has the key of the store.
func (s *service) admit(ctx context.Context) error {
	secret := metadata.ValueFromIncomingContext(ctx, secretHeader)
	if len(secret) != 1 || subtle.ConstantTimeCompare([]byte(secret[0]), []byte(s.secret)) != 1 {
		return carillon.Errorf(carillon.Unauthenticated, "", "only who can open the store, or read the file %s in its folder, may copy "+
			"what it holds", doorFile)
	}
	if s.node == nil {
		return nil
	}
	if err := s.node(ctx); err != nil {
		return carillon.Errorf(carillon.Unauthenticated, "", "only who shows a certificate of a node may copy what the store holds: "+
			"give --cert and --key of one: %w", err)
	}
	return nil
}

// Follow implements the rpc.
func (s *service) Follow(stream grpc.BidiStreamingServer[peerv1.FollowRequest, peerv1.FollowResponse]) error {
	if err := s.admit(stream.Context()); err != nil {
		return wire.ErrorToStatus(err)
	}
	ses, err := begin(stream.Context(), s.of, stream.Send)
	if err != nil {
		return wire.ErrorToStatus(carillon.Errorf(carillon.FailedPrecondition, "", "%w", err))
	}
	defer ses.end()
	requests := make(chan *peerv1.FollowRequest)
	received := make(chan error, 1)
	go func() { // ends with the stream
		for {
			r, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			select {
			case requests <- r:
			case <-ses.life.Done():
				return
			}
		}
	}()
	for {
		var err error
		select {
		case r := <-requests:
			err = ses.step(r)
		case <-received: //nolint:errcheck // the caller has gone, or has ended the call
			return nil
		case <-ses.life.Done():
			err = context.Cause(ses.life)
		}
		if err != nil {
			return wire.ErrorToStatus(carillon.Errorf(carillon.Unavailable, "", "%w", err))
		}
	}
}

var errStep = errors.New("step: none that this node knows: use a carillon of its version")

// step does what a request asks for, and answers.
func (s *session) step(r *peerv1.FollowRequest) error {
	switch step := r.GetStep().(type) {
	case *peerv1.FollowRequest_Begin:
		head, err := s.head(s.life)
		if err != nil {
			return err
		}
		return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Head{Head: head}})
	case *peerv1.FollowRequest_Copy:
		return s.copy(step.Copy)
	case *peerv1.FollowRequest_Hold:
		if err := s.hold(s.life, step.Hold.GetSettle()); err != nil {
			return err
		}
		return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Held{Held: &peerv1.FollowHeld{}}})
	case *peerv1.FollowRequest_Check:
		sums, err := s.check(s.life, step.Check.GetDigest())
		if err != nil {
			return err
		}
		return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Checked{Checked: sums}})
	case *peerv1.FollowRequest_Move:
		if err := s.stop.move(s.life, step.Move.GetUndo()); err != nil {
			return err
		}
		return s.send(&peerv1.FollowResponse{What: &peerv1.FollowResponse_Moved{Moved: &peerv1.FollowMoved{}}})
	case *peerv1.FollowRequest_Release:
		s.stop.release()
		return nil
	}
	return errStep
}
