package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Connect opens a worker's session; see [carillon.Work]. It returns when the server has accepted the worker, or has refused
// it. ctx bounds the opening, not the session.
func (c *Client) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	stream, err := c.open(life, hello)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, failed(err, false) // a session that is not there has changed nothing
	}
	return &session{stream: stream, end: end}, nil
}

// workStream is the stream of the rpc Work.
type workStream = grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse]

// open says hello. The server answers with the stream's header, or ends the stream.
func (c *Client) open(ctx context.Context, hello carillon.Hello) (workStream, error) {
	stream, err := c.service.Work(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.WorkRequest{Hello: wire.HelloToProto(&hello)}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	header, err := stream.Header()
	if err != nil {
		return nil, err
	}
	if header == nil { // the stream has ended, and says why
		_, err = stream.Recv()
		return nil, err
	}
	return stream, nil
}

// session is a worker's stream.
type session struct {
	stream  workStream
	end     context.CancelFunc // of the stream, at once
	sending sync.Mutex         // held by Send: a stream takes one at a time
}

// Send implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Send(ctx context.Context, req carillon.WorkRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	defer context.AfterFunc(ctx, s.end)()
	err := s.stream.Send(wire.WorkRequestToProto(&req))
	if errors.Is(err, io.EOF) {
		return carillon.Errorf(carillon.Unavailable, "", "the session is over; Receive says why")
	}
	if err != nil {
		return failed(err, true)
	}
	return nil
}

// Receive implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	defer context.AfterFunc(ctx, s.end)()
	m, err := s.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		s.end()
		return carillon.WorkResponse{}, carillon.Errorf(carillon.Canceled, "", "the session is closed")
	case err != nil:
		s.end()
		return carillon.WorkResponse{}, failed(err, true)
	}
	return wire.WorkResponseFromProto(m)
}

// lingering is how long a closed session may still receive.
const lingering = 5 * time.Second

// Close implements [carillon.Session]: nothing more is sent, and what the server has sent already can still be received.
func (s *session) Close() error {
	if !s.sending.TryLock() { // it waits for the server, which does not read
		s.end()
		return nil
	}
	defer s.sending.Unlock()
	time.AfterFunc(lingering, s.end)
	if err := s.stream.CloseSend(); err != nil {
		return failed(err, true)
	}
	return nil
}
