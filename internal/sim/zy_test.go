package sim_test

import (
	"fmt"
	"testing"
	"strings"
	"github.com/carillonhq/carillon/internal/sim"
	"github.com/carillonhq/carillon/internal/checker"
)

func TestZY(t *testing.T) {
	show := func(q sim.Profile, s uint64, job, ns string) {
		p := q.Generate(s)
		h := live(t, &p, sim.Options{})
		fmt.Println("=====", s, job)
		for _, l := range sim.Trace(&h) {
			if strings.Contains(l, job) || strings.Contains(l, " fault ") {
				fmt.Println(l[:min(len(l), 330)])
			}
		}
		for _, o := range h.Ops { if o.Job == job && o.Spec != nil { fmt.Printf("%v %v %+v\n", o.Kind, o.Invoke, *o.Spec) } }
	}
	pq := weighted(quiet, nil, sim.Weight{Kind: checker.Pause, N: 20}, sim.Weight{Kind: checker.Resume, N: 20})
	pe := weighted(chaos, []sim.FaultKind{sim.EndpointDown})
	show(pq, 114, "c3/j0", "default")
	show(pe, 39, "c2/j4", "default")
	show(pe, 22, "c1/j2", "default")
}
