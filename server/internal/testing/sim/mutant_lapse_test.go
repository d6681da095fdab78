package sim_test

import (
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// lapseMutants are bugs that show when the store goes back in time, and bugs that show without it and that
// its excuses must not hide.
var lapseMutants = []mutant{
	{"shares are stored whatever the term", sim.Lapses, []string{"S11"},
		wire(func(m *peerv1.ApplyShareRequest) { m.Term = nil })},
	{"a put is lost, and not because the store went back", sim.Lapses, []string{"S3", "S8"},
		api(func(s sim.Scheduler) sim.Scheduler { return &putless{Scheduler: s} })},
	{"a pause is not made, and the store went back", sim.Lapses, []string{"S2", "S3", "S8"},
		api(func(s sim.Scheduler) sim.Scheduler { return pauseless{s} })},
	{"a write of a term that is over lands", sim.Lapses, []string{"S7"}, disk(unfenced)},
}
