package wire

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/carillonhq/carillon/internal/tracecontext"
)

// Outgoing returns ctx for a call of gRPC that takes along the trace context of the span that it is made in,
// unless the caller has given it one.
func Outgoing(ctx context.Context) context.Context {
	parent, state := tracecontext.Of(ctx)
	if parent == "" {
		return ctx
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md.Get(tracecontext.Parent)) > 0 {
		return ctx
	}
	pairs := []string{tracecontext.Parent, parent, tracecontext.State, state}
	if state == "" {
		pairs = pairs[:2]
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// Incoming returns ctx in the span that a call of gRPC was made in, unless this node has made a span for it.
func Incoming(ctx context.Context) context.Context {
	parent := metadata.ValueFromIncomingContext(ctx, tracecontext.Parent)
	if len(parent) == 0 {
		return ctx
	}
	state := metadata.ValueFromIncomingContext(ctx, tracecontext.State)
	return tracecontext.Join(ctx, parent[0], strings.Join(state, ","))
}
