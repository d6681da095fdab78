package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/multisession"
	"github.com/carillonhq/carillon/internal/wire"
)

// Connect opens a worker's session; see [carillon.Work]. It returns when the server has accepted or refused
// the worker. ctx bounds the opening, not the session.
//
// In a cluster the session includes one with every node, see [WithOneAddress]. If the client's node cannot be
// reached, another one that an earlier session learned of takes its place.
func (c *Client) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	if c.one {
		return c.openSession(ctx, hello, nil)
	}
	hello.Direct = true
	first, err := c.openSession(ctx, hello, nil)
	if errors.Is(err, carillon.Unavailable) {
		first, err = c.connectAny(ctx, hello, err)
	}
	if err != nil {
		return nil, err
	}
	return multisession.Open(first, multisession.Options{Hello: hello, Connect: c.connectTo,
		Learn: func(all []string) { c.nodes.Store(&all) }}), nil
}

// connectAny opens a session with one of the known nodes, unless ctx ends; if it cannot, it returns the first
// attempt's error, err.
func (c *Client) connectAny(ctx context.Context, hello carillon.Hello, err error) (carillon.Session, error) {
	known := c.nodes.Load()
	if known == nil {
		return nil, err
	}
	for _, address := range *known {
		if ctx.Err() != nil {
			break
		}
		if s, failed := c.connectTo(ctx, address, hello); failed == nil {
			return s, nil
		}
	}
	return nil, err
}

// connectTo opens a session with the node at an address, over a connection of its own.
func (c *Client) connectTo(ctx context.Context, address string,
	hello carillon.Hello) (carillon.Session, error) {
	return ConnectTo(ctx, address, hello, c.options...)
}

// ConnectTo opens a worker's session with one node, whatever others there are, over a connection of its own
// that ends with it. To be served by all nodes use [Client.Connect].
func ConnectTo(ctx context.Context, address string, hello carillon.Hello,
	opts ...Option) (carillon.Session, error) {
	other, err := Dial(address, opts...)
	if err != nil {
		return nil, err
	}
	// nothing is said over it any more
	s, err := other.openSession(ctx, hello, sync.OnceFunc(func() { _ = other.Close() }))
	if err != nil {
		return nil, errors.Join(err, other.Close())
	}
	return s, nil
}

// openSession opens a session with this client's node only; ended, if not nil, is called when it is over.
func (c *Client) openSession(ctx context.Context, hello carillon.Hello,
	ended func()) (carillon.Session, error) {
	shown := &atomic.Pointer[string]{}
	life, end := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), shownKey{}, shown))
	stop := context.AfterFunc(ctx, end)
	sent := &lowerBound{}
	stream, err := c.open(life, hello, sent)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		end()
		err = failed(err, false) // a session that was not opened has changed nothing
		return nil, c.renewed(ctx, shown.Load(), err)
	}
	return &session{stream: stream, sent: sent, end: end, ended: ended}, nil
}

// workStream is the stream of the rpc Work.
type workStream = grpc.BidiStreamingClient[pb.WorkRequest, pb.WorkResponse]

// open sends the hello. The server answers with the stream's header, or ends the stream.
func (c *Client) open(ctx context.Context, hello carillon.Hello, sent *lowerBound) (workStream, error) {
	stream, err := c.service.Work(ctx)
	if err != nil {
		return nil, err
	}
	sent.sending()
	first := &pb.WorkRequest{Hello: wire.HelloToProto(&hello)}
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
		return nil, cmp.Or(unsendable(err, first.GetHello()), err)
	}
	header, err := stream.Header()
	if err != nil {
		return nil, err
	}
	if header == nil { // the stream has ended, and Recv returns why
		_, err = stream.Recv()
		return nil, err
	}
	return stream, nil
}

// session is a worker's stream.
type session struct {
	stream  workStream
	sent    *lowerBound
	end     context.CancelFunc // ends the stream at once
	ended   func()             // called when it is over; may be nil
	sending sync.Mutex         // held by Send: a stream takes one message at a time
}

// over ends the stream, and the connection if it was for this session.
func (s *session) over() {
	s.end()
	if s.ended != nil {
		s.ended()
	}
}

// Send implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Send(ctx context.Context, req carillon.WorkRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	defer context.AfterFunc(ctx, s.end)()
	s.sent.sending()
	err := s.stream.Send(wire.WorkRequestToProto(&req))
	if errors.Is(err, io.EOF) {
		return carillon.Errorf(carillon.Unavailable, "", "the session is over; Receive says why")
	}
	return failed(err, true)
}

// Receive implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	defer context.AfterFunc(ctx, s.end)()
	m, err := s.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		s.over()
		return carillon.WorkResponse{}, carillon.Errorf(carillon.Canceled, "", "the session is closed")
	case err != nil:
		s.over()
		return carillon.WorkResponse{}, failed(err, true)
	}
	resp, err := wire.WorkResponseFromProto(m)
	resp.Since = s.sent.since(m, time.Now())
	return resp, err
}

// lingering is how long a closed session may still receive.
const lingering = 5 * time.Second

// Close implements [carillon.Session]. Nothing more is sent; what the server has sent already can still be
// received.
func (s *session) Close() error {
	if !s.sending.TryLock() { // Send waits for the server, which does not read
		s.over()
		return nil
	}
	defer s.sending.Unlock()
	time.AfterFunc(lingering, s.over)
	return failed(s.stream.CloseSend(), true)
}
