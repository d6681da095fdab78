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

// Work implements the rpc: it ties a worker's stream to a session. Four goroutines, none of which can hold up another
// worker: this one watches; one carries what the worker says to the session; one takes from the session; one writes.
// The last two are apart so that all that has gathered while a message was being written goes into the next one.
func (s *Service) Work(stream grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	opening, err := stream.Recv()
	if err != nil {
		return err
	}
	if opening.GetHello() == nil {
		return carillon.Errorf(carillon.InvalidArgument, "hello", "must be in the first message")
	}
	hello := wire.HelloFromProto(opening.GetHello())
	hello.Namespace = namespace(hello.Namespace)
	session, err := s.scheduler.Connect(ctx, hello)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	// A worker that moves from one session to another must know that it was accepted before it leaves the old one.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}

	w := &worker{stream: stream, session: session, inbox: make(chan carillon.WorkResponse, inboxDepth),
		stall: newStall(s.options.StallTimeout)}
	defer w.stall.stop()
	read, written := make(chan error, 1), make(chan error, 1)
	go func() { read <- safely(func() error { return w.read(ctx, opening) }) }()
	go func() { written <- safely(func() error { return w.write(s.options.ConnectionAge) }) }()
	go func() {
		defer close(w.inbox)
		w.taken = safely(func() error { return w.take(ctx) })
	}()
	select {
	case err = <-read: // the worker is gone, spoke nonsense, or has said all
		if err == nil {
			w.finish(written)
		}
	case err = <-written: // the session is over, and all it had to say was written
	case <-w.stall.fired:
		err = carillon.Errorf(carillon.Unavailable, "", "the worker has not read its stream for %v", s.options.StallTimeout)
	}
	return err
}

// finish ends the session of a worker that has said all it had to say. What the session has handed out counts as delivered,
// so it must still reach the worker.
func (w *worker) finish(written <-chan error) {
	_ = w.session.Close()
	select {
	case <-written: //nolint:errcheck // why the session is over is known: the worker ended it
	case <-w.stall.fired:
	}
}

// inboxDepth is how many of a session's messages may wait to be written. They are merged when the stream has room, so a
// small number is enough; beyond it the session itself must wait.
const inboxDepth = 16

// worker is one worker's stream and session.
type worker struct {
	stream  grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]
	session carillon.Session
	inbox   chan carillon.WorkResponse
	taken   error // why the inbox was closed
	stall   *stall
}

// read carries the worker's words to the session until the worker closes its side.
func (w *worker) read(ctx context.Context, m *pb.WorkRequest) error {
	for {
		req, err := wire.WorkRequestFromProto(m)
		if err != nil {
			return err
		}
		if err := w.session.Send(ctx, req); err != nil {
			return err
		}
		m, err = w.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.GetHello() != nil {
			return carillon.Errorf(carillon.InvalidArgument, "hello", "must be in the first message only")
		}
	}
}

// take moves the session's words to the inbox until the session ends.
func (w *worker) take(ctx context.Context) error {
	for {
		resp, err := w.session.Receive(ctx)
		if err != nil {
			return err
		}
		select {
		case w.inbox <- resp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write sends what the inbox has, as much as is there in one message. After the age it asks the worker to connect anew,
// shortly before the transport closes the connection.
func (w *worker) write(age time.Duration) error {
	old := time.NewTimer(age)
	defer old.Stop()
	for {
		var resp carillon.WorkResponse
		select {
		case first, ok := <-w.inbox:
			if !ok {
				return w.ended()
			}
			resp = gather(first, w.inbox)
		case <-old.C:
			resp.Drain = true
		}
		for part := range parts(resp) {
			if err := w.send(&part); err != nil {
				return err
			}
		}
	}
}

// ended is the error of a session that is over; io.EOF is its good end.
func (w *worker) ended() error {
	if errors.Is(w.taken, io.EOF) {
		return nil
	}
	return w.taken
}

func (w *worker) send(resp *carillon.WorkResponse) error {
	w.stall.begin()
	defer w.stall.end()
	return w.stream.Send(wire.WorkResponseToProto(resp))
}

// stall notices a send that does not end because the peer does not read. Only the handler can end its stream, by
// returning, so it is told.
type stall struct {
	timeout time.Duration
	timer   *time.Timer
	fired   chan struct{}
}

func newStall(timeout time.Duration) *stall {
	s := &stall{timeout: timeout, fired: make(chan struct{})}
	s.timer = time.AfterFunc(timeout, func() { close(s.fired) })
	s.timer.Stop()
	return s
}

func (s *stall) begin() { s.timer.Reset(s.timeout) }
func (s *stall) end()   { s.timer.Stop() }
func (s *stall) stop()  { s.timer.Stop() }
