package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Payloads are what is stored and read as bodies that are no messages, with what collects them.
type Payloads struct {
	// Store keeps them. Default: there is nothing at its paths.
	Store carillon.Payloads
	// Service is carillon.v1.PayloadService, for the calls whose bodies are messages. It must be there if Store
	// is.
	Service pb.PayloadServiceServer
	// Ended is told how each call with such a body ended, by its name and gRPC's code. Default: nobody is.
	Ended func(api, method, code string)
}

// rawHandler serves a request whose body, or answer, is no message. It has answered if it returns nil. It may
// abort the answer by a panic, as [http.ErrAbortHandler] says, for which f is a pointer (decision 0120).
type rawHandler func(w http.ResponseWriter, r *http.Request, f *found) (method string, err error)

// routes are the paths of payloads.
func (p Payloads) routes(h *handler) []route {
	if p.Store == nil {
		return nil
	}
	const path = "/v1/namespaces/{namespace}/payloads"
	put := newRoute(&annotations.HttpRule{Pattern: &annotations.HttpRule_Put{Put: path}})
	get := newRoute(&annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path + "/{payload=**}"}})
	put.raw, get.raw = h.putPayload, h.getPayload
	of := routesOf(pb.File_carillon_v1_payload_proto, &pb.PayloadService_ServiceDesc, p.Service)
	return append(of, put, get)
}

// raw serves a request of a raw route.
func (h *handler) raw(w http.ResponseWriter, r *http.Request, f *found) {
	ctx, release := h.hold(r)
	defer release()
	r = r.WithContext(ctx)
	method, err := f.route.raw(w, r, f)
	if ended := h.options.Payloads.Ended; ended != nil {
		code := codes.OK
		if err != nil {
			code = wire.GRPCCode(wire.ToError(err).Kind)
		}
		ended("rest", method, code.String())
	}
	if err != nil {
		fail(w, r, err)
	}
}

// hold returns the context of a request for as long as the caller's credential holds.
func (h *handler) hold(r *http.Request) (ctx context.Context, release func()) {
	if h.options.Access == nil {
		return r.Context(), func() {}
	}
	return h.options.Access.Hold(r.Context())
}

// why is the reason for which a transfer has ended that has failed: the credential of its caller, if that is
// it.
func (h *handler) why(r *http.Request, err error) error {
	if gate := h.options.Access; gate != nil {
		if lost := gate.Alive(r.Context()); lost != nil {
			return lost
		}
	}
	return err
}

// given returns the value of a parameter of the path.
func (f *found) given(field string) string {
	for _, p := range f.params {
		if p.field == field {
			return p.value
		}
	}
	return ""
}

// moveWithin is how long a caller may neither send nor take anything of a payload.
const moveWithin = 30 * time.Second

// putPayload stores the body.
func (h *handler) putPayload(w http.ResponseWriter, r *http.Request, f *found) (string, error) {
	const method = "PutPayload"
	if err := h.judge(r, pb.PayloadService_PutPayload_FullMethodName,
		&pb.PutPayloadRequest{Namespace: f.given("namespace")}); err != nil {
		return method, err
	}
	if err := noQuery(r); err != nil {
		return method, err
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return method, wire.NotSupported("Content-Encoding")
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Time{}); err != nil && !unsupported(err) { // of the whole call
		return method, gone(err)
	}
	in := &movingBody{from: r.Body, until: deadline{within: moveWithin, set: control.SetReadDeadline}}
	defer in.until.leave()
	defer context.AfterFunc(r.Context(), in.until.cut)()
	ref, err := h.store(r, f.given("namespace"), in)
	if err != nil {
		if errors.Is(err, carillon.ResourceExhausted) {
			err = &carillon.Error{Kind: carillon.ResourceExhausted, Field: "payload",
				Message: wire.ToError(err).Message, Err: &http.MaxBytesError{}} // which has a status of its own
		}
		return method, err
	}
	if err := control.SetWriteDeadline(time.Now().Add(moveWithin)); err != nil && !unsupported(err) {
		return method, gone(err)
	}
	respond(w, wire.StoredToProto(ref))
	return method, nil
}

// store stores a payload, and has it recorded.
func (h *handler) store(r *http.Request, namespace string,
	in io.Reader) (ref carillon.PayloadRef, err error) {
	ctx, end := r.Context(), func(_ any, err error) error { return err }
	if h.options.Audit != nil {
		ctx, end, err = h.options.Audit.Begin(ctx, pb.PayloadService_PutPayload_FullMethodName,
			&pb.PutPayloadRequest{Namespace: namespace})
		if err != nil {
			return ref, err
		}
	}
	if ref, err = h.options.Payloads.Store.PutPayload(ctx, namespace, in); err != nil {
		err = h.why(r, err)
	}
	return ref, end(wire.StoredToProto(ref), err)
}

// deadline is that of what is read or written of a connection next. Any goroutine may cut it. The handler
// must leave it when it returns.
type deadline struct {
	within time.Duration
	set    func(time.Time) error

	mu   sync.Mutex
	over bool
}

// renew sets it again; forever: there is none.
func (d *deadline) renew(forever bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var at time.Time
	switch {
	case d.over:
		return os.ErrDeadlineExceeded
	case !forever:
		at = time.Now().Add(d.within)
	}
	if err := d.set(at); err != nil && !unsupported(err) {
		return err
	}
	return nil
}

// cut has what is read or written now fail, and whatever would be next.
func (d *deadline) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.over = true
	_ = d.set(time.Unix(1, 0)) // if it cannot be set, the next one fails
}

// leave has nothing set from now on. It waits for a cut under way: when the handler has returned, the
// connection serves other requests, and what belongs to a stream of HTTP/2 is gone, so that to set its
// deadline panics.
func (d *deadline) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// movingBody is a body of which some must come every while.
type movingBody struct {
	from  io.Reader
	until deadline
}

// Read implements [io.Reader].
func (b *movingBody) Read(p []byte) (int, error) {
	if err := b.until.renew(false); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p)
	if errors.Is(err, io.EOF) { // what is done with it may take longer
		if err := b.until.renew(true); err != nil {
			return n, err
		}
	}
	return n, err
}

// getPayload answers with the bytes of a reference.
func (h *handler) getPayload(w http.ResponseWriter, r *http.Request, f *found) (string, error) {
	const method = "GetPayload"
	if err := h.judge(r, pb.PayloadService_GetPayload_FullMethodName,
		&pb.GetPayloadRequest{Namespace: f.given("namespace"), Payload: f.given("payload")}); err != nil {
		return method, err
	}
	if err := noQuery(r); err != nil {
		return method, err
	}
	ref, err := carillon.ParsePayloadRef(f.given("payload"))
	if err != nil {
		return method, err
	}
	from, err := h.options.Payloads.Store.GetPayload(r.Context(), f.given("namespace"), ref)
	if err != nil {
		return method, err
	}
	defer from.Close()
	w.Header().Set("Content-Type", carillon.ContentTypeBinary)
	w.Header().Set("Content-Length", strconv.FormatInt(ref.Size, 10))
	if r.Method == http.MethodHead {
		return method, nil
	}
	to := &movingAnswer{to: w, until: deadline{within: moveWithin,
		set: http.NewResponseController(w).SetWriteDeadline}}
	defer to.until.leave()
	defer context.AfterFunc(r.Context(), to.until.cut)()
	if _, err := io.Copy(to, from); err != nil {
		err = h.why(r, err)
		h.options.Logger.WarnContext(r.Context(), "a payload was not sent to its end", "error", err)
		if f := h.options.Payloads.Ended; f != nil {
			f("rest", method, wire.GRPCCode(wire.ToError(err).Kind).String())
		}
		panic(http.ErrAbortHandler) // so that the caller sees that bytes are missing
	}
	return method, nil
}

// movingAnswer is an answer of which some must be taken every while.
type movingAnswer struct {
	to    io.Writer
	until deadline
}

// Write implements [io.Writer].
func (a *movingAnswer) Write(p []byte) (int, error) {
	if err := a.until.renew(false); err != nil {
		return 0, fmt.Errorf("the reader is gone: %w", err)
	}
	return a.to.Write(p)
}
