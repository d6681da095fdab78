package sim_test

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// doubtMutants are aimed at attempts of which the store knows nothing when their owner is killed.
var doubtMutants = []mutant{
	{"a term leaves nothing in doubt", killing, []string{"S12", "S2"}, batches(func(b *store.Batch) {
		b.MetaRecords = slices.DeleteFunc(slices.Clone(b.MetaRecords),
			func(s store.MetaRecord) bool { return s.Kind == store.KindTerms })
	})},
	{"nothing is in doubt of what was written before", killing,
		[]string{"S12", "S2"}, batches(func(b *store.Batch) {
			for i := range b.Puts {
				b.Puts[i].State.Settled = 1 << 62
			}
		})},
	{"an attempt in doubt is not counted", killing, []string{"S12"}, batches(func(b *store.Batch) {
		for i := range b.Runs {
			if r := &b.Runs[i]; r.InDoubt > 0 {
				r.Attempt = 0
			}
		}
	})},
	{"nobody is told to stop", sim.Doubts, []string{"S14"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return mute{d} }}
	}},
	{"a schedule begins a run too many", chaos, []string{"S2"}, batches(func(b *store.Batch) {
		for i := range b.Puts {
			if s := &b.Puts[i].State; s.Begun > 0 {
				s.Begun--
			}
		}
	})},
}

// mute tells consumers of no end of their attempts.
type mute struct{ engine.Dispatcher }

func (mute) Cancel([]delivery.Cancel) {}
