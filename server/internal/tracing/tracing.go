package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Tracer makes spans and exports them. It implements the Tracer of package partition.
type Tracer struct {
	provider *sdktrace.TracerProvider
	sampler  sdktrace.Sampler
	attempts trace.Tracer
	export   *exporter

	ended chan delivery.EndedAttempt // whose spans are to be made
	stop  chan struct{}              // closed by Close
	made  sync.WaitGroup             // the goroutine that makes them
}

// scope names what makes the spans of attempts.
const scope = "github.com/carillonhq/carillon/server"

// New starts a tracer. It connects to the collector when there is something to export, and does not fail if
// there is none.
func New(ctx context.Context, o Options) (*Tracer, error) {
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	r, err := resourceOf(ctx, &o)
	if err != nil {
		return nil, err
	}
	client, err := exporterOf(ctx, &p)
	if err != nil {
		return nil, fmt.Errorf("export of traces: %w", err)
	}
	e := &exporter{client: client, log: o.Log, count: o.Count}
	processor := &bounded{to: sdktrace.NewBatchSpanProcessor(e, sdktrace.WithMaxQueueSize(p.queue)),
		most: int64(p.queue), exporter: e}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(r), sdktrace.WithSampler(p.sampler),
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithSpanProcessor(processor))
	t := &Tracer{provider: provider, sampler: p.sampler, export: e,
		attempts: provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version)),
		ended:    make(chan delivery.EndedAttempt, p.queue), stop: make(chan struct{})}
	t.made.Go(t.makeSpans)
	return t, nil
}

// exporterOf returns the exporter.
func exporterOf(ctx context.Context, p *plan) (*otlptrace.Exporter, error) {
	if p.grpc {
		var options []otlptracegrpc.Option
		if p.endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(p.endpoint))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	var options []otlptracehttp.Option
	if p.endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(p.endpoint))
	}
	return otlptracehttp.New(ctx, options...)
}

// resourceOf describes the node. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last, so they win.
func resourceOf(ctx context.Context, o *Options) (*resource.Resource, error) {
	r, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "carillon"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Node)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

// flushTimeout is how long a node that ends waits for its last spans to be exported.
const flushTimeout = 3 * time.Second

// Close exports what waits, for at most 3 s. What ends after it has no span. Call it once.
func (t *Tracer) Close() error {
	close(t.stop)
	t.made.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	if n := t.export.waiting.Load(); n > 0 {
		t.export.log.Warn("spans were lost at the end of the node: they could not be exported in time",
			"spans", n)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // said above
	}
	return err
}

// ids generates random ids, unless a context names those of the span that is made.
type ids struct{}

// idsKey is the context key of the ids of a span, a [delivery.Trace].
type idsKey struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (g ids) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	if chosen, ok := ctx.Value(idsKey{}).(delivery.Trace); ok {
		return chosen.IDs()
	}
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements [sdktrace.IDGenerator].
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if chosen, ok := ctx.Value(idsKey{}).(delivery.Trace); ok {
		_, span = chosen.IDs()
		return span
	}
	binary.NativeEndian.PutUint64(span[:], rand.Uint64()|1) // zero is not valid
	return span
}
