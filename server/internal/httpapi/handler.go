package httpapi

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the OpenAPI document
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/access"
)

// Options says how the face behaves. The zero value of a field is its default, given here.
type Options struct {
	Logger *slog.Logger // of panics; default slog.Default()

	// Cluster is carillon.v1.ClusterService. Default: there is nothing at its paths.
	Cluster pb.ClusterServiceServer
	// Streams are the calls that are answered by server-sent events. Default: there are none.
	Streams Streams
	// Payloads are what is stored and read as bodies that are no messages. Default: there is nothing at its
	// paths.
	Payloads Payloads
	// Access judges callers; the interceptors judge their calls. Default: everybody may do everything.
	Access *access.Gate
	// Authentication is how callers prove who they are, as serve --auth says it. Default "none".
	Authentication string
	// Keys is carillon.v1.AccessService. Default: there is nothing at its paths.
	Keys pb.AccessServiceServer
	// Audit records who makes which calls that no interceptor is around. Default: nobody does.
	Audit access.Auditor
	// Trail is carillon.v1.AuditService. Default: there is nothing at its paths.
	Trail pb.AuditServiceServer
	// Interceptor is around every call, as around those of gRPC. Default none.
	Interceptor grpc.UnaryServerInterceptor
	// Called is told how each call ended, by its name and gRPC's code. Default: nobody is.
	Called func(api, method, code string, took time.Duration)
	// Ready says why the node cannot serve. Default: it can.
	Ready func(context.Context) error
	// Metrics is served at /metrics. Default: nothing is.
	Metrics http.Handler
	// Page is the page in the browser. It knows nothing, so everyone gets it. Default: there is none.
	Page Page
	// Other is served where nothing else is. Default: a problem document.
	Other http.Handler
	// AllowHost judges the Host of a request, against DNS rebinding. Default: all are allowed.
	AllowHost func(host string) bool
	// TrustedOrigins are those besides the node's own whose pages may use the API in a browser, for example
	// "https://admin.example.com". Default none.
	TrustedOrigins []string

	MaxBody int64 // bytes; default 4 MiB
}

// Page serves addresses that nothing else has.
type Page interface {
	http.Handler
	// Serves reports whether a request is for the page, as far as nothing else is at its path.
	Serves(r *http.Request) bool
}

// defaultMaxBody is the limit on a gRPC message too.
const defaultMaxBody = 4 << 20

//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the description of the REST API, in OpenAPI 3.1, as JSON.
func OpenAPI() []byte { return bytes.Clone(openAPI) }

// handler serves the REST API and what belongs to it.
type handler struct {
	options Options
	routes  []route
}

// New makes the handler of a node's HTTP listener. It fails on an origin that is none.
func New(service pb.SchedulerServiceServer, o Options) (http.Handler, error) {
	o.Logger, o.MaxBody = cmp.Or(o.Logger, slog.Default()), cmp.Or(o.MaxBody, defaultMaxBody)
	if o.Other == nil {
		o.Other = http.HandlerFunc(notFound)
	}
	h := &handler{options: o}
	h.routes = routesOf(pb.File_carillon_v1_scheduler_proto, &pb.SchedulerService_ServiceDesc, service)
	if o.Cluster != nil {
		h.routes = append(h.routes, routesOf(pb.File_carillon_v1_cluster_proto,
			&pb.ClusterService_ServiceDesc, o.Cluster)...)
	}
	if o.Streams.Events != nil {
		h.routes = append(h.routes, routesOf(pb.File_carillon_v1_event_proto, &pb.EventService_ServiceDesc,
			o.Streams.Events)...)
	}
	if o.Keys != nil {
		h.routes = append(h.routes, routesOf(pb.File_carillon_v1_access_proto, &pb.AccessService_ServiceDesc,
			o.Keys)...)
	}
	if o.Trail != nil {
		h.routes = append(h.routes, routesOf(pb.File_carillon_v1_audit_proto, &pb.AuditService_ServiceDesc,
			o.Trail)...)
	}
	h.routes = slices.Concat(h.routes, o.Payloads.routes(h), h.sessionRoutes())
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := carillon.Errorf(carillon.PermissionDenied, "Origin", "a page of another origin may not change anything")
		h.refused(r, "", nil, err)
		WriteProblem(w, err)
	}))
	for _, origin := range o.TrustedOrigins {
		if err := origins.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	return h.around(cors(o.TrustedOrigins, origins.Handler(h.identified(http.HandlerFunc(h.dispatch))))), nil
}

// around is what holds for every request: headers that keep browsers from guessing, the host, and panics.
func (h *handler) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				h.panicked(w, r, p)
			}
		}()
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		if allow := h.options.AllowHost; allow != nil && !allow(r.Host) {
			err := carillon.Errorf(carillon.PermissionDenied, "Host", "%q is not a name of this node", clip(r.Host))
			h.refused(r, "", nil, err)
			WriteProblem(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// panicked answers for a handler that could not. A deliberate abort goes on to the server.
func (h *handler) panicked(w http.ResponseWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	h.options.Logger.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path,
		"error", fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
	WriteProblem(w, fmt.Errorf("panic: %v", p))
}

func (h *handler) dispatch(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/"):
		h.api(w, r)
	case r.URL.Path == "/livez":
		readOnly(w, r, func() { writeText(w, "ok\n") })
	case r.URL.Path == "/readyz":
		readOnly(w, r, func() { h.ready(w, r) })
	case r.URL.Path == "/openapi.json":
		readOnly(w, r, func() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(openAPI) // the caller is gone if this fails
		})
	case r.URL.Path == "/metrics" && h.options.Metrics != nil:
		readOnly(w, r, func() { h.metrics(w, r) })
	case h.shows(r):
		h.options.Page.ServeHTTP(w, r)
	default:
		h.options.Other.ServeHTTP(w, r)
	}
}

// own are the paths outside of /v1/ that the node itself serves, or may serve.
var own = []string{"/v1", "/livez", "/readyz", "/openapi.json", "/metrics"}

// shows reports whether a request is for the page.
func (h *handler) shows(r *http.Request) bool {
	path := r.URL.Path
	return h.options.Page != nil && !strings.HasPrefix(path, "/v1/") && !slices.Contains(own, path) &&
		h.options.Page.Serves(r)
}

// api serves what is under /v1/.
func (h *handler) api(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves out the body
	}
	f := find(h.routes, method, r.URL.EscapedPath())
	switch {
	case f.route != nil && f.route.raw != nil:
		r.Pattern = f.route.path
		h.raw(w, r, f)
	case f.route != nil && f.route.stream != nil:
		h.stream(w, r, f)
	case f.route != nil:
		r.Pattern = f.route.path // for what is around the handler
		h.serve(w, r, f)
	case len(f.allow) > 0:
		notAllowed(w, r, f.allow)
	default:
		notFound(w, r)
	}
}

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	if h.options.Ready != nil {
		if err := h.options.Ready(r.Context()); err != nil {
			WriteProblem(w, carillon.Errorf(carillon.Unavailable, "", "not ready: %w", err))
			return
		}
	}
	writeText(w, "ok\n")
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// readOnly serves what can only be read.
func readOnly(w http.ResponseWriter, r *http.Request, serve func()) {
	if !reads(r) {
		notAllowed(w, r, []string{http.MethodGet})
		return
	}
	serve()
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the caller is gone if this fails
}

func notFound(w http.ResponseWriter, r *http.Request) {
	WriteProblem(w, carillon.Errorf(carillon.NotFound, "",
		"there is nothing at %s %s; /openapi.json says what there is", r.Method, clip(r.URL.Path)))
}

// notAllowed refuses a method that the path does not have.
func notAllowed(w http.ResponseWriter, r *http.Request, allow []string) {
	if slices.Contains(allow, http.MethodGet) {
		allow = append(allow, http.MethodHead)
	}
	possible := strings.Join(allow, ", ")
	w.Header().Set("Allow", possible)
	writeProblem(w, http.StatusMethodNotAllowed,
		invalid("", "%s is not possible here; %s is", r.Method, possible))
}
