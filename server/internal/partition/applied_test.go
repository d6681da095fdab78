package partition

import (
	"maps"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

func TestAMarkerLastsUntilItIsRemoved(t *testing.T) {
	out := &builder{seq: 1}
	a := newAppliedMarkers(out)
	if a.again("b") {
		t.Fatal("a share that was never stored is stored")
	}
	a.add("b", 3)
	if !a.again("b") || len(out.small) != 1 {
		t.Fatalf("the marker is in %d records of one batch, want 1", len(out.small))
	}
	out.seq, out.after = 2, 0
	if !a.again("b") || len(out.small) != 2 || out.after != 2 {
		t.Fatalf("a repeated share wrote %d records and waits for batch %d; want 2 and 2",
			len(out.small), out.after)
	}
	loaded := newAppliedMarkers(&builder{seq: 1})
	loaded.load(out.small[:1])
	if got := loaded.Coordinators(); !maps.Equal(got, map[string]int{"b": 3}) {
		t.Fatalf("after takeover: %v", got)
	}
	loaded.Remove("b")
	loaded.Remove("b")
	if got := loaded.out.small; loaded.again("b") || len(got) != 1 || got[0].Kind != store.KindApplied ||
		got[0].Value != nil {
		t.Fatalf("removing it wrote %v", got)
	}
}
