package engine

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// traceOf returns the trace context of the span that a call is made in: the node's for the call, or else the
// caller's. Empty: it is made in none.
func traceOf(ctx context.Context) delivery.Trace {
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return ""
	}
	return delivery.NewTrace(c.TraceID(), c.SpanID(), byte(c.TraceFlags()), c.TraceState().String())
}
