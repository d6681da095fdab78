package etcdapi

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// What all calls hold at once is bounded: requests before they are read, answers until they have been sent.
// gRPC reads a request whole before it calls a handler, and sends the answer after that has returned. So
// calls are served as streams of one message each way, which is the same on the wire.

const (
	// overhead is what a request may have besides its limit before gRPC itself refuses it, as in etcd.
	overhead = 512 << 10
	// turnPatience is how long an answer that keeps others from their turns waits until some have been read.
	turnPatience = 2 * time.Second
	// smallAnswer is an answer that is not counted: a stream holds so much anyway.
	smallAnswer = 64 << 10
	// streamWindow is how much of a stream that nobody has read yet gRPC keeps.
	streamWindow = 64 << 10
	// streams is how many calls a connection has at a time; further ones wait.
	streams = 100
)

// ServerOptions returns the options of a gRPC server that the service needs for its bounds.
func (o Options) ServerOptions() []grpc.ServerOption {
	o = o.withDefaults()
	return []grpc.ServerOption{grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(grpcproto.Name)}),
		grpc.MaxRecvMsgSize(o.RequestBytes + overhead), grpc.MaxConcurrentStreams(streams),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(streams * streamWindow)}
}

// budget is bytes that calls hold.
type budget struct {
	most int64
	sem  *semaphore.Weighted
}

func newBudget(bytes int) budget {
	return budget{int64(bytes), semaphore.NewWeighted(int64(bytes))}
}

// take waits until so many bytes are free; one call may take all of them. taken are to be released.
func (b budget) take(ctx context.Context, bytes int) (taken int64, err error) {
	taken = min(int64(bytes), b.most)
	if err := b.sem.Acquire(ctx, taken); err != nil {
		return 0, err
	}
	return taken, nil
}

// bounded returns a service whose calls take their turns.
func (s *Service) bounded(d grpc.ServiceDesc) *grpc.ServiceDesc {
	methods := d.Methods
	d.Methods, d.Streams = nil, slices.Clone(d.Streams)
	for i, of := range d.Streams {
		if !of.ClientStreams { // its request would be read for the handler, whose answer is the same for all
			d.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
				return of.Handler(srv, unread{stream})
			}
		}
	}
	for _, m := range methods {
		// Only what is a stream goes through the interceptors of streams.
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: m.MethodName, ServerStreams: true,
			Handler: func(srv any, stream grpc.ServerStream) error { return s.serve(srv, stream, &m) }})
	}
	return &d
}

// serve serves one call.
func (s *Service) serve(srv any, stream grpc.ServerStream, m *grpc.MethodDesc) error {
	c := &call{s: s}
	ctx := context.WithValue(stream.Context(), callKey{}, c)
	if _, given := ctx.Deadline(); !given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.CallTimeout)
		defer cancel()
	}
	defer c.close()
	answer, err := m.Handler(srv, ctx, func(in any) error { return c.receive(ctx, stream, in) }, s.recorded)
	if err != nil {
		return err
	}
	sent, _ := answer.(proto.Message)
	return s.send(ctx, stream, sent, c.next)
}

// call is what one call holds.
type call struct {
	s       *Service
	request int64  // of the budget
	end     func() // ends its turn to put an answer together, if it has one
}

// callKey is the key of a context's call.
type callKey struct{}

// receive reads the request.
func (c *call) receive(ctx context.Context, stream grpc.ServerStream, in any) (err error) {
	o := &c.s.options
	if c.request, err = c.s.requests.take(ctx, o.RequestBytes+overhead); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	m, _ := in.(proto.Message)
	var size int64
	received := make(chan error, 1)
	go func() { // it ends with the stream
		n, err := c.s.recv(stream, m)
		size = n
		received <- err
	}()
	select {
	case err = <-received:
	case <-ctx.Done():
		err = status.Errorf(codes.DeadlineExceeded, "the request has not come within %v", o.Patience)
	}
	if err != nil {
		return err
	}
	size = min(size, c.request)
	c.s.requests.sem.Release(c.request - size)
	c.request = size
	return nil
}

// hold waits for this call's turn to put an answer together, which lasts until the answer is counted.
func hold(ctx context.Context, t turns) (err error) {
	c, _ := ctx.Value(callKey{}).(*call)
	if c.end == nil {
		c.end, err = t.begin(ctx)
	}
	return err
}

// send sends an answer, which is counted until gRPC has done with it. taken is called when it is.
func (s *Service) send(ctx context.Context, stream grpc.ServerStream, m proto.Message, taken func()) error {
	size := proto.Size(m)
	if size <= smallAnswer {
		taken()
		return stream.SendMsg(m)
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.options.Patience, turnPatience))
	defer cancel()
	n, err := s.sending.take(ctx, size)
	taken()
	if err != nil {
		return status.Errorf(codes.ResourceExhausted, "answers with %d bytes together are being sent and have not been read: "+
			"ask again, or for fewer keys at a time", s.sending.most)
	}
	answer := &counted{Message: m, free: sync.OnceFunc(func() { s.sending.sem.Release(n) })}
	err = stream.SendMsg(answer)
	if !answer.lent {
		answer.free()
	}
	return err
}

// next lets another call put an answer together.
func (c *call) next() {
	if c.end != nil {
		c.end()
	}
	c.end = nil
}

// close gives back what the call holds; its answer is counted by itself.
func (c *call) close() {
	c.next()
	c.s.requests.sem.Release(c.request)
}

// counted is an answer that is counted until free is called.
type counted struct {
	proto.Message
	free func()
	lent bool // gRPC has its bytes
}

// codec is gRPC's own, but for requests that are looked at first and answers that are counted.
type codec struct{ encoding.CodecV2 }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*counted)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := proto.Marshal(a.Message)
	if err != nil {
		return nil, err
	}
	l := &lender{a.free}
	a.lent = true
	// The bytes of an answer whose connection is lost are collected, and not given back.
	runtime.AddCleanup(l, func(free func()) { free() }, a.free)
	return mem.BufferSlice{mem.NewBuffer(&data, l)}, nil
}

// lender hears when gRPC gives the bytes of an answer back.
type lender struct{ free func() }

// Get implements [mem.BufferPool]; nobody asks for more.
func (*lender) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put implements [mem.BufferPool].
func (l *lender) Put(*[]byte) { l.free() }
