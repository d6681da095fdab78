package tracing

import (
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// GRPC returns the option of a gRPC server that makes spans of calls that change something.
func (t *Tracer) GRPC() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithPropagators(propagation.TraceContext{}), otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return Changes(info.FullMethodName) })))
}

// services are those whose calls have spans. Calls between nodes belong to the span of the caller's call.
var services = []string{"/carillon.v1.SchedulerService/", "/dapr.proto.scheduler.v1.Scheduler/"}

// others begin the names of methods without spans: they change nothing, or are streams that last.
var others = []string{"Get", "List", "Preview", "Watch", "Work"}

// Changes reports whether calls of a method have spans: it changes something, and ends.
func Changes(fullMethod string) bool {
	for _, s := range services {
		method, ok := strings.CutPrefix(fullMethod, s)
		if !ok {
			continue
		}
		for _, o := range others {
			if strings.HasPrefix(method, o) {
				return false
			}
		}
		return true
	}
	return false
}

// HTTP returns a handler that makes spans of requests to the REST API that change something.
func (t *Tracer) HTTP(next http.Handler) http.Handler {
	return otelhttp.NewHandler(next, "", otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/v1/") && r.Method != http.MethodGet &&
				r.Method != http.MethodHead && r.Method != http.MethodOptions
		}))
}

// Requests returns a transport that makes spans of requests to HTTP targets, within the span that their
// header names.
func (t *Tracer) Requests(next http.RoundTripper) http.RoundTripper {
	return within{otelhttp.NewTransport(unquestioned{next}, otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithMeterProvider(noop.NewMeterProvider()))}
}

// within puts requests into the span that their header names.
type within struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return w.next.RoundTrip(r.WithContext(ctx))
}

// unquestioned leaves the query of the URL out of the span: it may hold what proves the sender.
type unquestioned struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (u unquestioned) RoundTrip(r *http.Request) (*http.Response, error) {
	shown := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path, RawPath: r.URL.RawPath}
	trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("url.full", shown.String()))
	return u.next.RoundTrip(r)
}
