// Package tracecontext carries the context of a trace as W3C writes it (https://www.w3.org/TR/trace-context),
// in the headers of calls, the metadata of runs and the environment of commands. In a program it is where
// OpenTelemetry keeps it, so it is that of the span in which a call is made.
package tracecontext

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of the two parts in headers and metadata; in an environment they are in capitals.
const (
	Parent = "traceparent"
	State  = "tracestate"
)

// carrier is a trace context on its way. It implements [propagation.TextMapCarrier].
type carrier struct{ parent, state string }

// Get returns a part.
func (c *carrier) Get(key string) string {
	switch key {
	case Parent:
		return c.parent
	case State:
		return c.state
	}
	return ""
}

// Set sets a part.
func (c *carrier) Set(key, value string) {
	switch key {
	case Parent:
		c.parent = value
	case State:
		c.state = value
	}
}

// Keys names the parts.
func (*carrier) Keys() []string { return []string{Parent, State} }

// Of returns the trace context of the span that ctx is in; both are empty if it is in none.
func Of(ctx context.Context) (parent, state string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return c.parent, c.state
}

// With returns ctx in a span of somebody else. What is not a trace context leaves ctx as it is.
func With(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, &carrier{parent, state})
}

// Join is With, unless ctx is in a span already.
func Join(ctx context.Context, parent, state string) context.Context {
	if parent == "" || trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return With(ctx, parent, state)
}

// FromEnvironment is Join with what the environment says: TRACEPARENT and TRACESTATE.
func FromEnvironment(ctx context.Context) context.Context {
	return Join(ctx, os.Getenv("TRACEPARENT"), os.Getenv("TRACESTATE"))
}
