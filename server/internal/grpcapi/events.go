package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// EventService is carillon.v1.EventService over Events.
type EventService struct {
	pb.UnsafeEventServiceServer // a new call fails to compile until it is here

	events carillon.Events
}

var _ pb.EventServiceServer = (*EventService)(nil)

// Events is the service of the events of s's scheduler.
func (s *Service) Events() *EventService { return &EventService{events: s.scheduler} }

// Watch implements the rpc.
func (s *EventService) Watch(m *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	ctx := stream.Context()
	var gone error // a caller that cannot be told any more has gone
	err := s.events.Watch(ctx, wire.WatchQueryFromProto(m), func(b carillon.EventBatch) error {
		gone = stream.Send(wire.EventBatchToProto(&b))
		return gone
	})
	if gone != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
