package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Streams are what is served as server-sent events.
type Streams struct {
	// Events is carillon.v1.EventService. Default: there is nothing at its paths.
	Events pb.EventServiceServer
	// Interceptor is around every stream, as around those of gRPC. Default none.
	Interceptor grpc.StreamServerInterceptor
	// Ended is told how each stream ended, by its name and gRPC's code. Default: nobody is.
	Ended func(api, method, code string)
}

// sendWithin is how long a reader may take nothing before its stream is cut.
const sendWithin = 30 * time.Second

// headerLastEventID is what a reader that comes back has seen last.
const headerLastEventID = "Last-Event-ID"

// stream makes the streaming call that a route leads to, and answers with server-sent events.
func (h *handler) stream(w http.ResponseWriter, r *http.Request, f *found) {
	if r.Method == http.MethodHead {
		h.headStream(w, r, f)
		return
	}
	s := &eventWriter{handler: h, w: w, control: http.NewResponseController(w), r: r, found: f}
	call := f.route.stream
	intercept := h.options.Streams.Interceptor
	var err error
	if intercept == nil {
		err = call.Handler(f.route.service, s)
	} else {
		err = intercept(f.route.service, s, &grpc.StreamServerInfo{FullMethod: f.route.full,
			IsServerStream: true}, call.Handler)
	}
	if ended := h.options.Streams.Ended; ended != nil {
		code := codes.OK
		if err != nil {
			code = wire.GRPCCode(wire.ToError(err).Kind)
		}
		ended("rest", call.StreamName, code.String())
	}
	switch {
	case err == nil || r.Context().Err() != nil:
	case s.begun:
		s.fail(err)
	default:
		fail(w, r, err)
	}
}

// headStream says whether a watch would begin, but for its position.
func (h *handler) headStream(w http.ResponseWriter, r *http.Request, f *found) {
	var m pb.WatchRequest
	err := h.fill(w, r, f, &m)
	if err == nil {
		err = h.judge(r, f.route.full, &m)
	}
	if err == nil {
		q := wire.WatchQueryFromProto(&m)
		err = q.Validate()
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	eventStream(w)
}

func eventStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would collect it
	w.WriteHeader(http.StatusOK)
}

// eventWriter is a stream of gRPC over a response: it writes batches of events as server-sent events.
type eventWriter struct {
	handler *handler
	w       http.ResponseWriter
	control *http.ResponseController
	r       *http.Request
	found   *found
	begun   bool // the header is written
}

var _ grpc.ServerStream = (*eventWriter)(nil)

// Context implements [grpc.ServerStream].
func (s *eventWriter) Context() context.Context { return s.r.Context() }

// RecvMsg implements [grpc.ServerStream]: the one message is the request.
func (s *eventWriter) RecvMsg(m any) error {
	req, ok := m.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", m)
	}
	return s.handler.fill(s.w, s.r, s.found, req)
}

// SendMsg implements [grpc.ServerStream]. Only the last event of a batch has an id: who goes on from there
// has seen all of the batch. A batch without events is an id alone, which a reader remembers, too.
func (s *eventWriter) SendMsg(m any) error {
	batch, ok := m.(interface {
		GetEvents() []*pb.Event
		GetPosition() string
	})
	if !ok {
		return fmt.Errorf("%T is no batch of events", m)
	}
	var b bytes.Buffer
	events := batch.GetEvents()
	for i, e := range events {
		if i == len(events)-1 {
			fmt.Fprintf(&b, "id: %s\n", batch.GetPosition())
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s\n", e.GetType(), Marshal(e)) // which ends in a line feed
	}
	if len(events) == 0 {
		fmt.Fprintf(&b, "id: %s\n\n", batch.GetPosition())
	}
	return s.send(b.Bytes())
}

// fail tells why a stream ends that has begun. A reader's own errors are called error.
func (s *eventWriter) fail(err error) {
	e := wire.ToError(err)
	why, err := json.Marshal(problem{Type: "about:blank", Title: http.StatusText(wire.HTTPStatus(e.Kind)),
		Status: wire.HTTPStatus(e.Kind), Code: e.Kind.String(), Field: e.Field, Detail: e.Message})
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	_ = s.send(fmt.Appendf(nil, "event: problem\ndata: %s\n\n", why)) // the reader is gone if this fails
}

// send writes and waits until it is on its way. A stream outlives the server's limits on a call.
func (s *eventWriter) send(b []byte) error {
	if !s.begun {
		s.begun = true
		if err := s.control.SetReadDeadline(time.Time{}); err != nil && !unsupported(err) {
			return gone(err)
		}
		eventStream(s.w)
	}
	if err := s.control.SetWriteDeadline(time.Now().Add(sendWithin)); err != nil && !unsupported(err) {
		return gone(err)
	}
	if _, err := s.w.Write(b); err != nil {
		return gone(err)
	}
	if err := s.control.Flush(); err != nil && !unsupported(err) {
		return gone(err)
	}
	return nil
}

// unsupported reports whether a response has no deadlines, or is not buffered: it is none of net/http's.
func unsupported(err error) bool { return errors.Is(err, http.ErrNotSupported) }

// gone is the error of a reader to whom nothing can be written any more.
func gone(err error) error {
	return carillon.Errorf(carillon.Canceled, "", "the reader is gone: %w", err)
}

// SetHeader implements [grpc.ServerStream]; nothing is sent besides the messages.
func (s *eventWriter) SetHeader(metadata.MD) error { return nil }

// SendHeader implements [grpc.ServerStream].
func (s *eventWriter) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements [grpc.ServerStream].
func (s *eventWriter) SetTrailer(metadata.MD) {}
