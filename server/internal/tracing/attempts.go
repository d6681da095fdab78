package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// kind of the spans of attempts: the consumer gets their context.
const kind = trace.SpanKindProducer

// Context returns the trace context of an attempt's span. The sampler decides it as it will when the span is
// made.
func (t *Tracer) Context(a delivery.Attempt) delivery.Trace {
	id, span := a.IDs()
	parent := parentOf(&a)
	if c := trace.SpanContextFromContext(parent); c.IsValid() {
		id = c.TraceID()
	}
	sampled := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: parent, TraceID: id,
		Kind: kind, Links: linksOf(&a)})
	flags := trace.TraceFlags(0).WithSampled(sampled.Decision == sdktrace.RecordAndSample)
	return delivery.NewTrace(id, span, byte(flags), sampled.Tracestate.String())
}

// spanContext returns a trace context as OpenTelemetry has it: the zero one if it names no span.
func spanContext(t delivery.Trace) trace.SpanContext {
	if !t.Valid() {
		return trace.SpanContext{}
	}
	id, span := t.IDs()
	state, err := trace.ParseTraceState(t.State())
	if err != nil {
		state = trace.TraceState{} // of a damaged record
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, Remote: true,
		TraceFlags: trace.TraceFlags(0).WithSampled(t.Sampled()), TraceState: state})
}

// parentOf returns a context in the parent of an attempt's span.
func parentOf(a *delivery.Attempt) context.Context {
	ctx := context.Background()
	if a.Own {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, spanContext(a.Cause))
}

// linksOf returns the link of an attempt's span to the call that the run goes back to.
func linksOf(a *delivery.Attempt) []trace.Link {
	if c := spanContext(a.Cause); c.IsValid() {
		return []trace.Link{{SpanContext: c}}
	}
	return nil
}

// Ended has the span of an attempt made. It does not wait: a span costs as much as a run, which is not to be
// spent where runs are handed out.
func (t *Tracer) Ended(a delivery.EndedAttempt) {
	select {
	case t.ended <- a:
	default:
		if t.Context(a.Attempt).Sampled() {
			t.export.count(Dropped, 1)
		}
	}
}

// makeSpans makes the spans of attempts until the end.
func (t *Tracer) makeSpans() {
	for {
		select {
		case a := <-t.ended:
			t.makeSpan(a)
			continue
		case <-t.stop:
		}
		for {
			select {
			case a := <-t.ended:
				t.makeSpan(a)
			default:
				return
			}
		}
	}
}

// makeSpan makes the span of an attempt, if it is one to be recorded.
func (t *Tracer) makeSpan(a delivery.EndedAttempt) {
	c := t.Context(a.Attempt)
	if !c.Sampled() {
		return
	}
	ctx := context.WithValue(parentOf(&a.Attempt), idsKey{}, c)
	_, span := t.attempts.Start(ctx, "deliver "+a.Queue.Address, trace.WithSpanKind(kind),
		trace.WithTimestamp(a.Started), trace.WithLinks(linksOf(&a.Attempt)...),
		trace.WithAttributes(attributesOf(&a)...))
	if a.Ending == delivery.AttemptFailed {
		span.SetAttributes(attribute.String("error.type", "failed"))
		span.SetStatus(codes.Error, a.Message)
	}
	span.End(trace.WithTimestamp(a.Ended))
}

// attributesOf describes an attempt, by OpenTelemetry's conventions for messages where they have a word.
func attributesOf(a *delivery.EndedAttempt) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("messaging.system", "carillon"),
		attribute.String("messaging.operation.name", "deliver"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", a.Queue.Address),
		attribute.String("messaging.message.id", a.RunID),
		attribute.String("carillon.namespace", a.Job.Namespace),
		attribute.String("carillon.job", a.Job.Name),
		attribute.String("carillon.target", a.Queue.Kind),
		attribute.String("carillon.cause", a.Trigger.String()),
		attribute.Int("carillon.attempt", a.Number),
		attribute.String("carillon.scheduled_time", a.Scheduled.UTC().Format(time.RFC3339Nano)),
		attribute.Float64("carillon.lateness", a.Lateness.Seconds()),
		attribute.String("carillon.outcome", a.Ending.String()),
	}
	if a.Worker != "" {
		all = append(all, attribute.String("carillon.worker", a.Worker))
	}
	return all
}
