package wire_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/carillonhq/carillon/internal/tracecontext"
	"github.com/carillonhq/carillon/internal/wire"
)

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// received is what the server of a call with the context ctx finds.
func received(ctx context.Context) (parent, state string) {
	md, _ := metadata.FromOutgoingContext(ctx)
	return tracecontext.Of(wire.Incoming(metadata.NewIncomingContext(context.Background(), md)))
}

func TestACallTakesItsTraceAlong(t *testing.T) {
	ctx := tracecontext.With(t.Context(), caller, "a=1,b=2")
	if p, s := received(wire.Outgoing(ctx)); p != caller || s != "a=1,b=2" {
		t.Errorf("%q, %q arrive", p, s)
	}
	if p, _ := received(wire.Outgoing(t.Context())); p != "" {
		t.Errorf("%q arrives of a call in no span", p)
	}
}

// TestTheCallersOwnTraceparentStays: an interceptor may have set it.
func TestTheCallersOwnTraceparentStays(t *testing.T) {
	const own = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00"
	ctx := metadata.AppendToOutgoingContext(tracecontext.With(t.Context(), caller, ""), "traceparent", own)
	if p, _ := received(wire.Outgoing(ctx)); p != own {
		t.Errorf("%q arrives", p)
	}
}

// TestSeveralTracestatesAreOne, as HTTP may split a header.
func TestSeveralTracestatesAreOne(t *testing.T) {
	md := metadata.Pairs("traceparent", caller, "tracestate", "a=1", "tracestate", "b=2")
	_, s := tracecontext.Of(wire.Incoming(metadata.NewIncomingContext(t.Context(), md)))
	if s != "a=1,b=2" {
		t.Errorf("the tracestate is %q", s)
	}
}
