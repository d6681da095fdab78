package sim_test

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// awayMutants are bugs in what leaves while the store is away.
var awayMutants = []mutant{
	{"it leaves under a lease that has ended", sim.Away, []string{"S6", "S12"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Disk: func(s store.Store) store.Store { return brief{s} }}
	}},
	{"what left while the store was away is denied", sim.Away, []string{"S12", "S2"},
		batches(func(b *store.Batch) {
			b.MetaRecords = slices.DeleteFunc(slices.Clone(b.MetaRecords),
				func(s store.MetaRecord) bool { return s.Kind == store.KindTerms })
		})},
	{"a write is acknowledged before the store has it, which then goes away", sim.Away,
		[]string{"S3", "S8", "S11", "L1"}, disk(forgetful)},
}
