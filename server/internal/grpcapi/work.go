package grpcapi

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

// Work implements the rpc: it ties a worker's stream to a session. Three goroutines, none of which can hold
// up another worker: this one watches; one carries what the worker says to the session; one carries what the
// session says to the worker. All that the session gathers while a message is being written goes into the
// next one.
func (s *Service) Work(stream grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	opening, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return invalid("hello", "the stream ended before its first message, which must have it")
	}
	if err != nil {
		return err
	}
	if opening.GetHello() == nil {
		return invalid("hello", "must be in the first message")
	}
	sent := newSentTimes()
	hello := wire.HelloFromProto(opening.GetHello())
	hello.Namespace = namespace(hello.Namespace)
	if s.options.ByReference && !hello.Payloads {
		return carillon.Errorf(carillon.FailedPrecondition, "hello.payloads",
			"this cluster keeps large payloads apart, and the worker's library does not say that it reads them: update it")
	}
	session, err := s.scheduler.Connect(ctx, hello)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	// A worker that moves from one session to another must know that it was accepted before it leaves the old
	// one.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}

	w := &worker{stream: stream, session: session, sent: sent, stall: NewStall(s.options.StallTimeout)}
	defer w.stall.End()
	old := time.AfterFunc(s.options.ConnectionAge, w.sendAway)
	defer old.Stop()
	read, written := make(chan error, 1), make(chan error, 1)
	go func() { read <- Safely(func() error { return w.read(ctx, opening) }) }()
	go func() { written <- Safely(func() error { return w.write(ctx) }) }()
	select {
	case err = <-read: // the worker is gone, spoke nonsense, or has said all
		if err == nil {
			w.finish(written)
		}
	case err = <-written: // the session is over, and all it had to say was written
	case <-w.stall.Fired:
		err = carillon.Errorf(carillon.Unavailable, "", "the worker has not read its stream for %v",
			s.options.StallTimeout)
	}
	return err
}

// finish ends the session of a worker that has said all it had to say. What the session has handed out counts
// as delivered, so it must still reach the worker.
func (w *worker) finish(written <-chan error) {
	_ = w.session.Close()
	select {
	case <-written: //nolint:errcheck // why the session is over is known: the worker ended it
	case <-w.stall.Fired:
	}
}

// worker is one worker's stream and session.
type worker struct {
	stream  grpc.BidiStreamingServer[pb.WorkRequest, pb.WorkResponse]
	session carillon.Session
	sent    *sentTimes
	sending sync.Mutex // held by send: a stream takes one message at a time
	stall   *Stall
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
		w.sent.arrived()
		if m.GetHello() != nil {
			return invalid("hello", "must be in the first message only")
		}
	}
}

// write carries the session's words to the worker until the session ends; io.EOF is its good end.
func (w *worker) write(ctx context.Context) error {
	for {
		resp, err := w.session.Receive(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for part := range parts(resp) {
			if err := w.send(&part); err != nil {
				return err
			}
		}
	}
}

// sendAway asks the worker to connect again, shortly before the transport closes the old connection. If that
// cannot be said any more, the stream is over anyway.
func (w *worker) sendAway() {
	_ = Safely(func() error { return w.send(&carillon.WorkResponse{Drain: true}) })
}

func (w *worker) send(resp *carillon.WorkResponse) error {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.stall.Begin()
	defer w.stall.End()
	m := wire.WorkResponseToProto(resp)
	w.sent.stamp(m, resp.Since)
	return w.stream.Send(m)
}

// Stall notices a send that does not end because the peer does not read. Only the handler can end its stream,
// by returning, so it is told.
type Stall struct {
	Fired   chan struct{} // capacity 1; filled when a send takes too long
	timeout time.Duration
	timer   *time.Timer
}

// NewStall makes one for sends that may take so long.
func NewStall(timeout time.Duration) *Stall {
	s := &Stall{timeout: timeout, Fired: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(timeout, s.fire)
	s.timer.Stop()
	return s
}

// fire may be called again: a peer that reads after all, just when it has lost its stream, has the clock
// started once more.
func (s *Stall) fire() {
	select {
	case s.Fired <- struct{}{}:
	default:
	}
}

// Begin starts the clock of a send.
func (s *Stall) Begin() { s.timer.Reset(s.timeout) }

// End stops it.
func (s *Stall) End() { s.timer.Stop() }
