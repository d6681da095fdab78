package tracecontext_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon/internal/tracecontext"
)

const (
	theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	others = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00"
)

// TestATraceContextComesBackUnchanged, also one that is not sampled.
func TestATraceContextComesBackUnchanged(t *testing.T) {
	for _, parent := range []string{theirs, others} {
		ctx := tracecontext.With(t.Context(), parent, "a=1,b=2")
		if p, s := tracecontext.Of(ctx); p != parent || s != "a=1,b=2" {
			t.Errorf("%s comes back as %q, %q", parent, p, s)
		}
		if !trace.SpanContextFromContext(ctx).IsRemote() {
			t.Error("the span is not somebody else's")
		}
	}
}

func TestWhatIsNoTraceContextIsIgnored(t *testing.T) {
	for _, parent := range []string{"", "1", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		theirs + "-more", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		for _, f := range []func(ctx context.Context, parent, state string) context.Context{
			tracecontext.With, tracecontext.Join} {
			if p, s := tracecontext.Of(f(t.Context(), parent, "a=1")); p != "" || s != "" {
				t.Errorf("%q is taken as %q, %q", parent, p, s)
			}
		}
	}
}

func TestJoinKeepsTheSpanThatThereIs(t *testing.T) {
	ctx := tracecontext.With(t.Context(), theirs, "")
	if p, _ := tracecontext.Of(tracecontext.Join(ctx, others, "")); p != theirs {
		t.Errorf("it is %s", p)
	}
	if p, _ := tracecontext.Of(tracecontext.With(ctx, others, "")); p != others {
		t.Errorf("With leaves %s", p)
	}
}

func TestTheEnvironmentNamesASpan(t *testing.T) {
	t.Setenv("TRACEPARENT", theirs)
	t.Setenv("TRACESTATE", "a=1")
	if p, s := tracecontext.Of(tracecontext.FromEnvironment(t.Context())); p != theirs || s != "a=1" {
		t.Errorf("it is %q, %q", p, s)
	}
}
