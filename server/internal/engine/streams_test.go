package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// sidecars is a fleet with one Dapr stream at each node. It knows which runs each stream holds.
type sidecars struct {
	*fleet
	rng   *rand.Rand
	at    []*stream
	holds []map[string]delivery.Delivery // by run
	done  map[string]bool
	owner []int // by partition
	log   []string
}

// boot starts a node that owns nothing.
func (s *sidecars) boot(i int) {
	s.t.Helper()
	c := engine.Config{Store: s.store, Node: fmt.Sprint("node-", i), Standby: true, Peers: peers{s.fleet},
		LeaseTTL: 4 * time.Second}
	e := engine.New(c)
	s.at[i], s.holds[i] = &stream{}, map[string]delivery.Delivery{}
	if err := e.Start(context.Background(), s.at[i]); err != nil {
		s.t.Fatal(err)
	}
	s.nodes[i] = &node{Engine: e, t: s.t}
}

// own assigns the partitions to their owners.
func (s *sidecars) own() {
	s.t.Helper()
	s.deal(func(p int) int { return s.owner[p] })
	s.settled()
}

func (s *sidecars) notef(format string, args ...any) {
	s.log = append(s.log, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// look takes what has been delivered, and checks that no other stream has it and that it is not done.
func (s *sidecars) look() {
	s.t.Helper()
	for i, at := range s.at {
		for _, d := range at.take() {
			if s.done[d.Run.ID] {
				s.t.Errorf("%s came to %d when it was done", d.Run.Job, i)
			}
			for k, held := range s.holds {
				if _, twice := held[d.Run.ID]; twice {
					s.t.Errorf("%s came to %d while %d had it", d.Run.Job, i, k)
				}
			}
			s.holds[i][d.Run.ID] = d
			s.notef("%s comes to %d", d.Run.Job, i)
		}
	}
}

// lets makes a stream give up some of the runs that it holds, one in so many.
func (s *sidecars) lets(i, one int) (ds []delivery.Delivery) {
	for _, id := range slices.Sorted(maps.Keys(s.holds[i])) {
		if s.rng.IntN(one) == 0 {
			ds = append(ds, s.holds[i][id])
			delete(s.holds[i], id)
		}
	}
	return ds
}

// answers reports success of runs to whichever node owns their partitions.
func (s *sidecars) answers(i, one int) {
	s.t.Helper()
	ds := s.lets(i, one)
	s.notef("%d answers %d", i, len(ds))
	if v := succeed(s.nodes[i].Engine, ds); v.accepted != len(ds) || v.stale != 0 {
		s.t.Errorf("%d of %d results are accepted, and %d stale", v.accepted, len(ds), v.stale)
	}
	for _, d := range ds {
		s.done[d.Run.ID] = true
	}
}

// befall makes one random event happen.
func (s *sidecars) befall() {
	s.t.Helper()
	switch i := s.rng.IntN(len(s.nodes)); s.rng.IntN(10) {
	case 0, 1, 2, 3:
		p := s.rng.IntN(len(s.owner))
		s.owner[p] = i
		s.notef("partition %d goes to %d", p, i)
		s.own()
	case 4:
		s.answers(i, 3)
	case 5:
		var tokens []string
		for _, d := range s.lets(i, 3) {
			tokens = append(tokens, d.Run.Token)
		}
		s.notef("streams of %d end, with %d", i, len(tokens))
		s.nodes[i].Undelivered(tokens)
		time.Sleep(time.Second)
	case 6:
		s.notef("%d is killed", i)
		stop(s.t, s.nodes[i].Engine)
		s.boot(i)
		s.own()
	default:
		time.Sleep(time.Duration(s.rng.IntN(40)) * time.Second)
	}
}

// TestStreamsOfACluster: partitions move while long runs go on, streams end, and nodes are killed. A run is
// delivered again soon if its stream is gone, and never while its stream lasts.
func TestStreamsOfACluster(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			const nodes, parts, jobs = 3, 4, 12
			f := &fleet{t: t, store: memory.New(memory.Options{Partitions: parts}), nodes: make([]*node, nodes)}
			s := &sidecars{fleet: f, rng: rand.New(rand.NewPCG(seed, 5)), at: make([]*stream, nodes),
				holds: make([]map[string]delivery.Delivery, nodes), done: map[string]bool{}}
			for p := range parts {
				f.all, s.owner = append(f.all, p), append(s.owner, p%nodes)
			}
			for i := range nodes {
				s.boot(i)
			}
			s.own()
			for k := range jobs {
				put := func(n *node) (carillon.PutResult, error) { return n.PutJob(t.Context(), daprJob(fmt.Sprint(k))) }
				if _, err := route(t.Context(), f, put); err != nil {
					t.Fatal(err)
				}
			}
			for range 40 {
				s.look()
				s.befall()
			}
			time.Sleep(35 * time.Second)
			s.look()
			for i := range nodes {
				s.answers(i, 1)
			}
			if len(s.done) != jobs {
				t.Errorf("%d of %d runs are done", len(s.done), jobs)
			}
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(s.log, "\n"))
			}
			for _, n := range f.nodes {
				stop(t, n.Engine)
			}
		})
	}
}
