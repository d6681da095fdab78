package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// BenchmarkTimers takes the first timer and sets it again, among n.
func BenchmarkTimers(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, random := newMachine(Config{}), rand.New(rand.NewPCG(1, 2))
			for i := range n {
				e := &entry{ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: fmt.Sprintf("job/%d", i)}}, timer: -1}
				m.agenda.set(e, 1+random.Int64N(1<<40))
			}
			b.ReportAllocs()
			for b.Loop() {
				e, at := m.agenda.timers.first(), m.agenda.timers[0].wake
				m.agenda.set(e, 0)
				m.agenda.set(e, at+1+random.Int64N(1<<40))
			}
		})
	}
}
