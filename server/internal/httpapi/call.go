package httpapi

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/tracecontext"
	"github.com/carillonhq/carillon/internal/wire"
)

// serve makes the call that a route leads to and answers with its reply.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, f *found) {
	began := time.Now()
	ctx := tracecontext.Join(r.Context(), r.Header.Get(tracecontext.Parent),
		strings.Join(r.Header.Values(tracecontext.State), ","))
	reply, err := f.route.call.Handler(f.route.service, ctx, func(req any) error {
		return h.fill(w, r, f, req.(proto.Message))
	}, h.options.Interceptor)
	if h.options.Called != nil {
		code := codes.OK
		if err != nil {
			code = wire.GRPCCode(wire.ToError(err).Kind)
		}
		h.options.Called("rest", f.route.call.MethodName, code.String(), time.Since(began))
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	respond(w, reply.(proto.Message))
}

// fill makes the request's message out of its body, path, query and headers, in this order: the path cannot
// be contradicted by what comes before it.
func (h *handler) fill(w http.ResponseWriter, r *http.Request, f *found, req proto.Message) error {
	m := req.ProtoReflect()
	if err := h.readBody(w, r, f.route, m); err != nil {
		return err
	}
	for _, p := range f.params {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(p.field))
		if in := m.Get(fd).String(); in != "" && in != p.value {
			return invalid(p.field, "is %q in the body and %q in the path; leave it out of the body",
				clip(in), clip(p.value))
		}
		m.Set(fd, protoreflect.ValueOfString(p.value))
	}
	if err := readQuery(r.URL.RawQuery, f, m); err != nil {
		return err
	}
	return readHeaders(r, req)
}

// readBody reads the body into the message, or into the field of it that the route says. No body is an empty
// one.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request, rt *route, m protoreflect.Message) error {
	if rt.body == "" {
		return nil
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return wire.NotSupported("Content-Encoding")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.options.MaxBody))
	if err != nil {
		return bodyError(err)
	}
	if len(body) == 0 {
		return nil
	}
	into := m
	if rt.body != "*" {
		into = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(rt.body))).Message()
	}
	all, err := Unmarshal(body, into.Interface())
	if patch, ok := m.Interface().(*pb.PatchJobRequest); ok {
		patch.Fields = all.patchPaths()
	}
	return err
}

// bodyError is why a body could not be read.
func bodyError(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refused := carillon.Errorf(carillon.ResourceExhausted, "", "the body is larger than %d bytes", large.Limit)
		refused.Err = err // which has a status of its own
		return refused
	}
	return invalid("", "the body could not be read: %w", err)
}

// readQuery reads the fields that are neither in the path nor in the body.
func readQuery(query string, f *found, m protoreflect.Message) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("", "the query cannot be read: %v", err)
	}
	known := membersFor(m.Descriptor())
	seen := seenFields{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		mem, ok := known[name]
		if !ok || !inQuery(f, mem.field) {
			return invalid(name, "unknown query parameter")
		}
		field := string(mem.field.Name())
		texts := listed(mem.field, values[name])
		if len(texts) > 1 && !mem.field.IsList() {
			return invalid(name, "given twice")
		}
		if other, twice := seen[field]; twice {
			return invalid(field, "given twice, as %s and as %s", other, name)
		}
		seen[field] = name
		for _, text := range texts {
			// Empty is a filter that is left open. A condition is none, and a time is never empty.
			if text == "" && !strings.HasPrefix(field, "if_") && mem.field.Message() == nil {
				continue
			}
			v, err := queryValue(name, mem.field, text)
			switch {
			case err != nil:
				return err
			case mem.field.IsList():
				m.Mutable(mem.field).List().Append(v)
			default:
				m.Set(mem.field, v)
			}
		}
	}
	return nil
}

// listed returns the values of a parameter: words of a list may be given together, with commas, or one at a
// time, whether the message has a list of them or a text.
func listed(fd protoreflect.FieldDescriptor, values []string) []string {
	switch words := strings.Join(values, ","); {
	case fd.IsList() && fd.Enum() != nil:
		return strings.Split(words, ",")
	case fd.FullName() == "carillon.v1.WatchRequest.types":
		return []string{words}
	}
	return values
}

func inQuery(f *found, fd protoreflect.FieldDescriptor) bool {
	name := string(fd.Name())
	if f.route.body == "*" || f.route.body == name || fd.IsList() && f.route.method != "GET" {
		return false // the fields of a patch are those that its body has
	}
	for _, p := range f.params {
		if p.field == name {
			return false
		}
	}
	return true
}

func queryValue(name string, fd protoreflect.FieldDescriptor, s string) (protoreflect.Value, error) {
	if fd.Kind() == protoreflect.BoolKind {
		if s != "true" && s != "false" {
			return protoreflect.Value{}, wrongType(name, wanted(fd))
		}
		return protoreflect.ValueOfBool(s == "true"), nil
	}
	return quoted(name, fd, s)
}

// respond answers with a message.
func respond(w http.ResponseWriter, reply proto.Message) {
	status := http.StatusOK
	if put, ok := reply.(*pb.PutJobResponse); ok && put.GetCreated() {
		status = http.StatusCreated
		w.Header().Set("Location", location(put.GetJob()))
	}
	setETag(w, reply)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(Marshal(reply)) // the caller is gone if this fails
}

// location is the path of a job.
func location(j *pb.Job) string {
	parts := strings.Split(j.GetName(), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/namespaces/" + url.PathEscape(j.GetNamespace()) + "/jobs/" + strings.Join(parts, "/")
}

// fail answers with an error. The status is the kind's, except where HTTP has a closer word.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	e := wire.ToError(err)
	status := wire.HTTPStatus(e.Kind)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		status = http.StatusRequestEntityTooLarge
	}
	if conditional(r) && (e.Kind == carillon.AlreadyExists || e.Kind == carillon.FailedPrecondition) {
		status = http.StatusPreconditionFailed
	}
	if e.Unknown && reads(r) {
		read := *e
		read.Unknown, e = false, &read // it changes nothing, whatever became of it
	}
	writeProblem(w, status, e)
}
