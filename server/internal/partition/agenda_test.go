package partition

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestWhatTheAgendaWaitsFor depends on where the record is and what its attempt lacks.
func TestWhatTheAgendaWaitsFor(t *testing.T) {
	run := store.RunState{Live: true, Due: 50, Deadline: 200}
	sent := attempt{granted: 100, lease: 180, current: true}
	young := sent
	young.current, young.granted = false, 110-int64(grantAfter)
	late := sent
	late.putOff = 190
	pending := sent
	pending.pending = 1
	for _, c := range []struct {
		name string
		e    entry
		want int64 // 0: no timer
	}{
		{"its next time", entry{state: store.State{Next: 40}}, 40},
		{"nothing", entry{}, 0},
		{"the end of its life", entry{state: store.State{Next: 40, Paused: true, Expires: 60}}, 61},
		{"its run", entry{state: store.State{Run: run}}, 50},
		{"a consumer", entry{place: ready, state: store.State{Run: run}}, 0},
		{"a batch", entry{place: blocked, state: store.State{Run: run}}, 0},
		{"the end of its lease", entry{place: running, attempt: sent, state: store.State{Run: run}}, 180},
		{"the end of its lease, which is put off",
			entry{place: running, attempt: late, state: store.State{Run: run}}, 190},
		{"its age", entry{place: running, attempt: young, state: store.State{Run: run}}, 110},
		{"the batch of its attempt", entry{place: running, attempt: pending, state: store.State{Run: run}}, 0},
		{"a parked run", entry{state: store.State{Run: run, Phase: carillon.PhaseStaged, Expires: 60}}, 61},
		{"the end of its delete", entry{place: gone, state: store.State{Next: 40}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &agenda{contents: newContents(&Config{}, &builder{})}
			c.e.timer = -1
			g.set(&c.e, 5) // as armed before
			g.rearm(&c.e)
			var got int64
			if len(g.timers) > 0 {
				got = g.timers[0].wake
			}
			if got != c.want {
				t.Errorf("it wakes at %d, want %d", got, c.want)
			}
		})
	}
}
