package grpcapi

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// PayloadService is carillon.v1.PayloadService over Payloads.
type PayloadService struct {
	pb.UnsafePayloadServiceServer // a new call fails to compile until it is here

	payloads carillon.Payloads
	stall    time.Duration // how long a caller may neither send nor take anything
}

var _ pb.PayloadServiceServer = (*PayloadService)(nil)

// Payloads is the service of the payloads of s's scheduler.
func (s *Service) Payloads() *PayloadService {
	return &PayloadService{payloads: s.scheduler, stall: s.options.StallTimeout}
}

// Stored are the payloads themselves.
func (s *Service) Stored() carillon.Payloads { return s.scheduler }

// payloadPart is how many bytes of a payload a message has.
const payloadPart = 64 << 10

// PutPayload implements the rpc.
func (s *PayloadService) PutPayload(
	stream grpc.ClientStreamingServer[pb.PutPayloadRequest, pb.PutPayloadResponse]) error {
	in := s.receive(stream)
	first, err := in.next()
	if errors.Is(err, io.EOF) {
		return invalid("payload", "the stream ended before its first message")
	}
	if err != nil {
		return err
	}
	in.rest = first.GetData()
	ref, err := s.payloads.PutPayload(stream.Context(), namespace(first.GetNamespace()), in)
	if in.err != nil {
		return in.err
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(wire.StoredToProto(ref))
}

// incoming is a payload as it comes.
type incoming struct {
	messages <-chan *pb.PutPayloadRequest // closed after the last one
	last     <-chan error                 // why no more come
	stall    time.Duration
	rest     []byte // of the last message
	err      error  // why no more has come; nil at the end
}

// receive returns what comes on a stream. Only the handler can end a call of Recv, by returning, so another
// goroutine makes them.
func (s *PayloadService) receive(
	stream grpc.ClientStreamingServer[pb.PutPayloadRequest, pb.PutPayloadResponse]) *incoming {
	messages, last := make(chan *pb.PutPayloadRequest), make(chan error, 1)
	go func() {
		defer close(messages)
		last <- Safely(func() error {
			for {
				m, err := stream.Recv()
				if err != nil {
					return err
				}
				select {
				case messages <- m:
				case <-stream.Context().Done(): // the handler has returned
					return stream.Context().Err()
				}
			}
		})
	}()
	return &incoming{messages: messages, last: last, stall: s.stall}
}

// next returns the next message, or the error that ended the stream.
func (in *incoming) next() (*pb.PutPayloadRequest, error) {
	late := time.NewTimer(in.stall)
	defer late.Stop()
	select {
	case m, more := <-in.messages:
		if !more {
			return nil, <-in.last
		}
		return m, nil
	case <-late.C:
		return nil, carillon.Errorf(carillon.Canceled, "payload", "nothing more of it has come for %v", in.stall)
	}
}

// Read implements [io.Reader].
func (in *incoming) Read(p []byte) (int, error) {
	for len(in.rest) == 0 {
		if in.err != nil {
			return 0, in.err
		}
		m, err := in.next()
		if err == nil && m.GetNamespace() != "" {
			err = invalid("namespace", "must be in the first message only")
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				in.err = err
			}
			return 0, err
		}
		in.rest = m.GetData()
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// GetPayload implements the rpc.
func (s *PayloadService) GetPayload(m *pb.GetPayloadRequest,
	stream grpc.ServerStreamingServer[pb.GetPayloadResponse]) error {
	ref, err := carillon.ParsePayloadRef(m.GetPayload())
	if err != nil {
		return err
	}
	r, err := s.payloads.GetPayload(stream.Context(), namespace(m.GetNamespace()), ref)
	if err != nil {
		return err
	}
	stall := NewStall(s.stall)
	defer stall.End()
	sent := make(chan error, 1)
	go func() {
		defer r.Close()
		sent <- Safely(func() error { return send(stream, ref, r, stall) })
	}()
	select {
	case err := <-sent:
		return err
	case <-stall.Fired:
		return carillon.Errorf(carillon.Unavailable, "payload", "the caller has not taken any of it for %v", s.stall)
	}
}

// send sends a payload to its end.
func send(stream grpc.ServerStreamingServer[pb.GetPayloadResponse], ref carillon.PayloadRef, r io.Reader,
	stall *Stall) error {
	for left := ref.Size; ; {
		part := make([]byte, payloadPart) // gRPC may keep it
		n, err := wire.ReadPart(r, part)
		end := wire.AtEnd(err)
		if err != nil && !end {
			return err
		}
		if left -= int64(n); n > 0 {
			stall.Begin()
			if err := stream.Send(&pb.GetPayloadResponse{Data: part[:n]}); err != nil {
				return err
			}
			stall.End()
		}
		switch {
		case end && left != 0: // the caller must not take it for the whole
			return carillon.Errorf(carillon.Unavailable, "payload", "%d bytes of %s are there, not %d",
				ref.Size-left, ref, ref.Size)
		case end:
			return nil
		}
	}
}

// CollectPayloads implements the rpc.
func (s *PayloadService) CollectPayloads(ctx context.Context,
	_ *pb.CollectPayloadsRequest) (*pb.CollectPayloadsResponse, error) {
	c, err := s.payloads.CollectPayloads(ctx)
	return wire.CollectionToProto(c), err
}
