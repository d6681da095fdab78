package sim_test

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// gateMutants break limits that sidecars name, where something is wrong that has nothing to do with them.
var gateMutants = []mutant{
	{"limits of sidecars do not hold while another node stands still", sim.SidecarsMove, []string{"S9"}, whileHalted},
}

// whileHalted has a node stand still as long as others break limits. Before it goes on they keep them again,
// and all sidecars have left, and come back: it is at no other time that a limit is broken.
func whileHalted(p *sim.Plan) sim.Mutant {
	halt := sim.Fault{Kind: sim.Halt, At: 5 * time.Second, For: p.Busy - 5*time.Second, Node: p.Nodes - 1}
	p.Faults = []sim.Fault{halt}
	for i := range p.Sidecars {
		if k := &p.Sidecars[i]; k.From < p.Busy {
			k.To = min(k.To, p.Busy-10*time.Second)
		}
	}
	return sim.Mutant{Peers: func(ps message.Partitions) message.Partitions {
		return selfishUntil{ps, p.Start.Add(halt.At), p.Start.Add(p.Busy - 12*time.Second)}
	}}
}

// selfishUntil is selfish between two instants.
type selfishUntil struct {
	message.Partitions
	from, to time.Time
}

// Ask is for [message.Partitions].
func (s selfishUntil) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if now := time.Now(); now.Before(s.from) || !now.Before(s.to) {
		return s.Partitions.Ask(ctx, p, m)
	}
	return selfish{s.Partitions}.Ask(ctx, p, m)
}
