package server

import (
	"context"
	"net/http"
	"os"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/server/internal/tracing"
)

// Traces says where traces are exported. What is not said here, OpenTelemetry's variables say.
type Traces struct {
	// Endpoint is the URL of a collector, such as http://localhost:4318. Default: OTEL_EXPORTER_OTLP_ENDPOINT.
	Endpoint string
}

func (t *Traces) validate() error {
	if t == nil {
		return nil
	}
	return tracing.Options{Endpoint: t.Endpoint, Getenv: os.Getenv}.Validate()
}

// newTracer starts the tracer of a node; nil if there are to be no traces.
func newTracer(ctx context.Context, c *Config, m *telemetry.Metrics) (*tracing.Tracer, error) {
	t := c.Monitoring.Traces
	if t == nil {
		return nil, nil
	}
	m.ShowExemplars()
	return tracing.New(ctx, tracing.Options{Endpoint: t.Endpoint, Node: c.Name,
		Version: c.Monitoring.Version, Log: c.Log,
		Count: m.Spans, Getenv: os.Getenv})
}

// endTraces exports what is left of the traces.
func (n *Node) endTraces() error {
	if n.tracer == nil {
		return nil
	}
	return n.tracer.Close()
}

// tracedCalls returns the options of a gRPC server that makes spans of calls.
func (n *Node) tracedCalls() []grpc.ServerOption {
	if n.tracer == nil {
		return nil
	}
	return []grpc.ServerOption{n.tracer.GRPC()}
}

// tracedRequests returns a handler of the REST API that makes spans of its calls.
func (n *Node) tracedRequests(next http.Handler) http.Handler {
	if n.tracer == nil {
		return next
	}
	return n.tracer.HTTP(next)
}

// attemptTracer returns what makes spans of attempts; nil if nothing does.
func (n *Node) attemptTracer() partition.Tracer {
	if n.tracer == nil {
		return nil // and not an interface that holds nil
	}
	return n.tracer
}

// aroundRequests returns what makes spans of requests to HTTP targets; nil if nothing does.
func (n *Node) aroundRequests() func(http.RoundTripper) http.RoundTripper {
	if n.tracer == nil {
		return nil
	}
	return n.tracer.Requests
}
