package engine

import (
	"testing"

	"github.com/carillonhq/carillon/internal/tracecontext"
)

func TestACallBelongsToTheSpanThatItIsMadeIn(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := traceOf(tracecontext.With(t.Context(), parent, "a=1"))
	if got.Parent() != parent || got.State() != "a=1" {
		t.Errorf("%q %q", got.Parent(), got.State())
	}
	if got := traceOf(t.Context()); got != "" {
		t.Errorf("a call in no span belongs to %q", got)
	}
}
