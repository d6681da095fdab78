package grpcapi

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// EventService is carillon.v1.EventService over Events.
type EventService struct {
	pb.UnsafeEventServiceServer // a new call fails to compile until it is here

	events carillon.Events

	mu     sync.Mutex
	recent []*batch // that watchers may have in common, newest last
}

var _ pb.EventServiceServer = (*EventService)(nil)

// Events is the service of the events of s's scheduler.
func (s *Service) Events() *EventService { return &EventService{events: s.scheduler} }

// Watch implements the rpc.
func (s *EventService) Watch(m *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	ctx := stream.Context()
	var gone error // a caller that cannot be told any more has gone
	err := s.events.Watch(ctx, wire.WatchQueryFromProto(m), func(b carillon.EventBatch) error {
		gone = stream.SendMsg(s.batchOf(&b))
		return gone
	})
	if gone != nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// batch is a message that is encoded once, for as many watchers as get it.
type batch struct {
	*pb.WatchResponse
	of carillon.EventBatch

	once sync.Once
	raw  []byte
	err  error
}

// batchesKept is how many batches are remembered for watchers that are slower than others.
const batchesKept = 16

// batchOf returns the message of a batch. Batches with the same events in memory have the same message.
func (s *EventService) batchOf(b *carillon.EventBatch) *batch {
	if len(b.Events) == 0 {
		return &batch{WatchResponse: wire.EventBatchToProto(b)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(s.recent) {
		if &r.of.Events[0] == &b.Events[0] && len(r.of.Events) == len(b.Events) && r.of.Position == b.Position {
			return r
		}
	}
	n := &batch{WatchResponse: wire.EventBatchToProto(b), of: *b}
	if len(s.recent) == batchesKept {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, n)
	return n
}

// encoded returns the message's bytes. They are shared, which gRPC does not mind: it only reads them.
func (b *batch) encoded(c encoding.CodecV2) (mem.BufferSlice, error) {
	b.once.Do(func() {
		var data mem.BufferSlice
		if data, b.err = c.Marshal(b.WatchResponse); b.err == nil {
			b.raw = data.Materialize()
			data.Free()
		}
	})
	return mem.BufferSlice{mem.SliceBuffer(b.raw)}, b.err
}
