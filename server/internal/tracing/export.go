package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Outcomes of spans, as they are counted.
const (
	Exported = "exported"
	Failed   = "failed"  // the collector could not be reached, or refused them
	Dropped  = "dropped" // too many waited already
)

// bounded is a processor that drops spans when too many wait. The SDK's does so too, but does not say it.
type bounded struct {
	to       sdktrace.SpanProcessor
	most     int64
	exporter *exporter
}

// OnStart implements [sdktrace.SpanProcessor].
func (b *bounded) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) { b.to.OnStart(ctx, s) }

// OnEnd implements [sdktrace.SpanProcessor]. It does not wait.
func (b *bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if b.exporter.waiting.Add(1) > b.most {
		b.exporter.waiting.Add(-1)
		b.exporter.count(Dropped, 1)
		return
	}
	b.to.OnEnd(s)
}

// Shutdown implements [sdktrace.SpanProcessor].
func (b *bounded) Shutdown(ctx context.Context) error { return b.to.Shutdown(ctx) }

// ForceFlush implements [sdktrace.SpanProcessor].
func (b *bounded) ForceFlush(ctx context.Context) error { return b.to.ForceFlush(ctx) }

// exporter counts what is exported, and logs when the export begins to fail and when it works again.
type exporter struct {
	client  sdktrace.SpanExporter
	log     *slog.Logger
	count   func(outcome string, n int)
	waiting atomic.Int64 // spans that have ended and are not exported yet
	failing atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter]. A failure ends here: the SDK would only print it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.client.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.count(Failed, len(spans))
		if !e.failing.Swap(true) {
			e.log.Warn("traces cannot be exported; runs go on without", "error", err)
		}
		return nil
	}
	e.count(Exported, len(spans))
	if e.failing.Swap(false) {
		e.log.Info("traces are exported again")
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (e *exporter) Shutdown(ctx context.Context) error { return e.client.Shutdown(ctx) }
