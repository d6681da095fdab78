package delivery_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

var context = delivery.NewTrace([16]byte{0: 0xab, 15: 1}, [8]byte{7: 2}, 1, "a=1,b=2")

func TestATraceIsTextAsW3CHasIt(t *testing.T) {
	const want = "00-ab000000000000000000000000000001-0000000000000002-01"
	if context.Parent() != want || context.State() != "a=1,b=2" || !context.Sampled() || !context.Valid() {
		t.Errorf("%q %q", context.Parent(), context.State())
	}
	if trace, span := context.IDs(); trace[0] != 0xab || span[7] != 2 {
		t.Errorf("%x %x", trace, span)
	}
}

// TestADamagedTraceIsNone: it came from a record of a store.
func TestADamagedTraceIsNone(t *testing.T) {
	for _, bad := range []delivery.Trace{"", "x", context[:24], delivery.NewTrace([16]byte{}, [8]byte{1}, 1, ""),
		delivery.NewTrace([16]byte{1}, [8]byte{}, 1, "")} {
		if trace, span := bad.IDs(); bad.Valid() || bad.Parent() != "" || bad.State() != "" || bad.Sampled() ||
			trace != [16]byte{} || span != [8]byte{} {
			t.Errorf("%q is taken for a trace", bad)
		}
		if m := bad.Into(map[string]string{"a": "1"}); len(m) != 1 {
			t.Errorf("%q is in %v", bad, m)
		}
	}
}

func TestALongTracestateIsCutBetweenEntries(t *testing.T) {
	entry := "k=" + strings.Repeat("v", 98) // 100 bytes, 101 with the comma
	long := strings.Repeat(entry+",", 7) + entry
	got := delivery.NewTrace([16]byte{1}, [8]byte{1}, 1, long).State()
	if want := strings.Repeat(entry+",", 4) + entry; got != want {
		t.Errorf("%d bytes are left: %q", len(got), got)
	}
	if got := delivery.NewTrace([16]byte{1}, [8]byte{1}, 1, strings.Repeat("x", 600)).State(); got != "" {
		t.Errorf("of one entry %q is left", got)
	}
}

func TestMetadataWithATraceIsACopy(t *testing.T) {
	shared := map[string]string{"a": "1", delivery.TraceStateKey: "old=1"}
	got := delivery.NewTrace([16]byte{1}, [8]byte{1}, 0, "").Into(shared)
	if len(shared) != 2 || got["a"] != "1" || got[delivery.TraceParentKey] == "" || got[delivery.TraceStateKey] != "" {
		t.Errorf("%v, %v", shared, got)
	}
	own := map[string]string{delivery.TraceParentKey: "mine"}
	if got := context.Into(own); !maps.Equal(got, own) {
		t.Errorf("the author's is replaced: %v", got)
	}
}

func TestTheIDsOfAnAttemptFollowFromIt(t *testing.T) {
	of := func(run string, n int) delivery.Trace {
		a := delivery.Attempt{RunID: run, Number: n}
		return a.Fresh()
	}
	first, same, second, other := of("run", 1), of("run", 1), of("run", 2), of("other", 1)
	if first != same || first == second || first.Parent()[:35] != second.Parent()[:35] ||
		first.Parent()[:35] == other.Parent()[:35] || !first.Sampled() {
		t.Errorf("%s %s %s", first.Parent(), second.Parent(), other.Parent())
	}
	a := delivery.Attempt{RunID: "run", Number: 1}
	if a.PassedOn() != "" {
		t.Error("a trace is passed on that there is not")
	}
	a.Cause = context
	if a.PassedOn() != context {
		t.Errorf("%q is passed on", a.PassedOn())
	}
	if a.Own = true; a.PassedOn() != first {
		t.Errorf("%q is passed on in the run's own trace", a.PassedOn())
	}
	if a.Cause = delivery.NewTrace([16]byte{1}, [8]byte{1}, 0, ""); a.PassedOn().Sampled() {
		t.Error("it is sampled, and the call is not")
	}
}
