package partition

import (
	"testing"
	"unsafe"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestAnEntryFitsItsSizeClass: there may be a hundred thousand entries in memory. Go's size classes are 768
// and 896 bytes, of which 8 are the allocator's own.
func TestAnEntryFitsItsSizeClass(t *testing.T) {
	if size, most := unsafe.Sizeof(entry{}), uintptr(768-8); size > most {
		t.Errorf("an entry has %d bytes, more than %d", size, most)
	}
}

// TestEachPlaceIsLeftByWayOfIdle but for a blocked run whose consumer proves that it has the attempt in
// doubt.
func TestEachPlaceIsLeftByWayOfIdle(t *testing.T) {
	for from := idle; from <= gone; from++ {
		for to := idle; to <= gone; to++ {
			want := from == idle && to <= gone || to == idle && from != gone ||
				from == blocked && (to == blocked || to == running) || from == gone && to == gone
			if moves[from][to] != want {
				t.Errorf("from %d to %d: %v, want %v", from, to, moves[from][to], want)
			}
		}
	}
}

// TestAnIllegalMovePanics: the run would be in two lists.
func TestAnIllegalMovePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a run that waits in a queue became blocked, and nobody noticed")
		}
	}()
	e := &entry{}
	e.move(ready)
	e.move(blocked)
}

// TestThePhaseOfARecord is the same for callers and for the store's lists.
func TestThePhaseOfARecord(t *testing.T) {
	run := store.RunState{Live: true}
	tried := store.RunState{Live: true, Attempt: 1}
	for _, c := range []struct {
		name string
		e    entry
		want carillon.Phase
	}{
		{"waits for its time", entry{}, carillon.PhaseScheduled},
		{"was staged, and its run has ended", entry{state: store.State{Phase: carillon.PhaseStaged}},
			carillon.PhaseScheduled},
		{"is paused", entry{state: store.State{Paused: true}}, carillon.PhasePaused},
		{"waits for other jobs", entry{state: store.State{Phase: carillon.PhaseWaiting}}, carillon.PhaseWaiting},
		{"has a run", entry{state: store.State{Run: run}}, carillon.PhaseReady},
		{"is paused with a run", entry{state: store.State{Run: run, Paused: true}}, carillon.PhaseReady},
		{"has a parked run", entry{state: store.State{Run: tried, Phase: carillon.PhaseStaged}},
			carillon.PhaseStaged},
		{"waits for its retry", entry{state: store.State{Run: tried}}, carillon.PhaseRetrying},
		{"has a retry that is due", entry{place: ready, state: store.State{Run: tried}}, carillon.PhaseRetrying},
		{"has an attempt in force", entry{place: running, state: store.State{Run: tried}}, carillon.PhaseRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.e.phase(); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			if new(agenda).file(&c.e); c.e.state.Phase != c.want {
				t.Errorf("filed under %v, want %v", c.e.state.Phase, c.want)
			}
		})
	}
}
