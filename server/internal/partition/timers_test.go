package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// timedEntry is an entry whose timer is not armed.
func timedEntry(i int) *entry {
	return &entry{ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: fmt.Sprintf("job/%d", i)}},
		timer: -1}
}

// TestTimersWakeInOrder holds the heap against a sorted list, under random changes: the first is the one with
// the least time, and of several with one time the one with the least name.
func TestTimersWakeInOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		g := &agenda{}
		var armed []timer // the dumb one
		entries := make([]*entry, 30)
		for i := range entries {
			entries[i] = timedEntry(i)
		}
		for range 500 {
			e := entries[rng.IntN(len(entries))]
			armed = slices.DeleteFunc(armed, func(a timer) bool { return a.e == e })
			if e.timer >= 0 && rng.IntN(3) == 0 {
				g.set(e, 0)
			} else {
				wake := 1 + rng.Int64N(20)
				g.set(e, wake)
				armed = append(armed, timer{wake, e})
			}
			slices.SortFunc(armed, func(a, b timer) int {
				if a.wake != b.wake {
					return int(a.wake - b.wake)
				}
				return a.e.ref.Compare(b.e.ref)
			})
			if len(g.timers) != len(armed) || len(g.timers) > 0 && (g.timers[0].e != armed[0].e ||
				g.timers[0].wake != armed[0].wake) {
				t.Fatalf("seed %d: %d are armed, want %d", seed, len(g.timers), len(armed))
			}
			for i, timer := range g.timers {
				if int(timer.e.timer) != i {
					t.Fatalf("seed %d: %v believes that it is at %d, not at %d", seed, timer.e.ref, timer.e.timer, i)
				}
			}
		}
		for ; len(g.timers) > 0; armed = armed[1:] {
			if g.timers[0].e != armed[0].e {
				t.Fatalf("seed %d: %v wakes, want %v", seed, g.timers[0].e.ref, armed[0].e.ref)
			}
			g.set(g.timers[0].e, 0)
		}
	}
}

// BenchmarkTimers takes the first timer and sets it again, among n.
func BenchmarkTimers(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, random := newMachine(Config{}), rand.New(rand.NewPCG(1, 2))
			for i := range n {
				e := &entry{ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: fmt.Sprintf("job/%d", i)}},
					timer: -1}
				m.agenda.set(e, 1+random.Int64N(1<<40))
			}
			b.ReportAllocs()
			for b.Loop() {
				e, at := m.agenda.timers[0].e, m.agenda.timers[0].wake
				m.agenda.set(e, 0)
				m.agenda.set(e, at+1+random.Int64N(1<<40))
			}
		})
	}
}
