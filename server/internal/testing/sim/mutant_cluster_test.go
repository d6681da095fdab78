package sim_test

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// moving is a cluster whose nodes come and leave in order, with nothing wrong; breaking is one of which nodes
// break down.
var (
	moving   = sim.Moves
	breaking = func() sim.Profile {
		p := sim.Cluster
		p.Faults, p.Storms, p.Habits = []sim.FaultKind{sim.Kill, sim.Halt, sim.Cut, sim.CutStore}, 10, false
		return weighted(p, p.Faults, sim.Weight{Kind: "trigger", N: 40})
	}()
)

// clusterMutants are bugs that show among several nodes only.
var clusterMutants = []mutant{
	{"a write of a deposed owner lands", breaking, []string{"S7"}, disk(unfenced)},
	{"a node that hands over goes on to deliver", moving, []string{"S10", "S7", "S9", "S2"},
		func(*sim.Plan) sim.Mutant {
			return sim.Mutant{Local: func(l cluster.Local, s store.Store,
				node string) cluster.Local {
				return &clinging{l, s.Leaser(), node}
			}}
		}},
	{"what may have been done is done again", breaking, []string{"S2", "S3", "S8"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Peer: func(p cluster.Peer) cluster.Peer { return hopeful{p} }}
	}},
	{"what was given up is done late", breaking, nil, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Peer: func(p cluster.Peer) cluster.Peer { return &tenacious{Peer: p} }}
	}},
	{"a lease is believed in for longer than it lasts", breaking, []string{"S6"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Disk: func(s store.Store) store.Store { return brief{s} }}
	}},
	{"each node has a limit of its own", moving, []string{"S9"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Peers: func(p message.Partitions) message.Partitions { return selfish{p} }}
	}},
	{"changed settings are not announced", sim.Permits, []string{"S9", "L1"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Peer: func(p cluster.Peer) cluster.Peer { return reticent{p} }}
	}},
	{"a lowered limit is not told to those that have permits", sim.Permits, []string{"S9", "L1"},
		func(*sim.Plan) sim.Mutant {
			return sim.Mutant{Peers: func(p message.Partitions) message.Partitions { return lenient{p} }}
		}},
	{"what a partition keeps of a limit does not cross", sim.Cluster, []string{"S9", "L1"},
		wire(func(m *peerv1.AskTokensRequest) {
			for _, a := range m.GetAsks() {
				a.Hold = 0
			}
		})},
	{"how many permits are given does not cross", sim.Cluster, []string{"L1", "S2", "S3"},
		wire(func(m *peerv1.GiveTokensRequest) {
			for _, g := range m.GetGrants() {
				g.N = 0
			}
		})},
	{"beats do not cross", sim.Cluster, []string{"S10"},
		wire(func(m *peerv1.HearRequest) { m.Heartbeats = nil })},
	{"that a failure is for good does not cross", sim.Cluster,
		[]string{"I11"}, wire(func(m *peerv1.HearRequest) {
			for _, r := range m.GetReports() {
				r.Result.Permanent, r.Result.RetryAfter = false, ""
			}
		})},
}

// wire is a mutant that changes one kind of request between nodes on its way.
func wire[M proto.Message](f func(M)) func(*sim.Plan) sim.Mutant {
	return func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Wire: func(m proto.Message) {
			if m, ok := m.(M); ok {
				f(m)
			}
		}}
	}
}

// clinging gives partitions up in the store a while before it stops to work on them.
type clinging struct {
	cluster.Local
	leaser store.Leaser
	node   string
}

// Assign is for [cluster.Local].
func (c *clinging) Assign(parts []int) {
	leaves := slices.DeleteFunc(c.Holdings(),
		func(h store.Holding) bool { return slices.Contains(parts, h.Partition) })
	if len(leaves) == 0 {
		c.Local.Assign(parts)
		return
	}
	go func() {
		_ = c.leaser.Release(context.Background(), c.node, leaves)             // it is a bug, not a fault
		time.AfterFunc(700*time.Millisecond, func() { c.Local.Assign(parts) }) // the world may end before
	}()
}

// brief is a store whose leases last two seconds less than it is asked for: as if owners counted them from
// the end of a renewal that takes so long.
type brief struct{ store.Store }

// Leaser is for [store.Store].
func (b brief) Leaser() store.Leaser { return briefly{b.Store.Leaser()} }

type briefly struct{ store.Leaser }

const shorter = 2 * time.Second

// Claim is for [store.Leaser].
func (l briefly) Claim(ctx context.Context, node string, parts []int,
	ttl time.Duration) ([]store.Term, error) {
	return l.Leaser.Claim(ctx, node, parts, ttl-shorter)
}

// Renew is for [store.Leaser].
func (l briefly) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	return l.Leaser.Renew(ctx, node, held, ttl-shorter)
}

// Join is for [store.Leaser].
func (l briefly) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	return l.Leaser.Join(ctx, m, ttl-shorter)
}

// hopeful takes calls whose outcome is unknown for calls that did nothing.
type hopeful struct{ cluster.Peer }

// TriggerJob is for [cluster.Peer].
func (h hopeful) TriggerJob(ctx context.Context, k carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
	defer cancel()
	r, err := h.Peer.TriggerJob(short, k, opts...)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		err = &carillon.Error{Kind: carillon.Unavailable, Err: cluster.ErrUnreached}
	}
	return r, err
}

// tenacious does every third put once more, when all have long forgotten it.
type tenacious struct {
	cluster.Peer
	n atomic.Int64
}

// Ask is for [cluster.Peer].
func (t *tenacious) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if _, put := m.(message.PutJob); put && t.n.Add(1)%3 == 0 {
		// nobody hears the answer
		time.AfterFunc(12*time.Second, func() { _, _ = t.Peer.Ask(context.WithoutCancel(ctx), p, m) })
	}
	return t.Peer.Ask(ctx, p, m)
}

// selfish gives its own partitions as many tokens as they ask for.
type selfish struct{ message.Partitions }

// Ask is for [message.Partitions].
func (s selfish) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	ask, ok := m.(message.RequestPermits)
	if !ok {
		return s.Partitions.Ask(ctx, p, m)
	}
	grants, err := message.Send(ctx, s.Partitions, p, ask)
	for i := range grants {
		for _, a := range ask.Requests {
			if g := &grants[i]; a.Limit == g.Limit {
				g.N = max(g.N, a.Hold+a.Want)
			}
		}
	}
	return grants, err
}

// reticent keeps what has changed to itself.
type reticent struct{ cluster.Peer }

// ReloadNamespace is for [cluster.Peer].
func (reticent) ReloadNamespace(context.Context, string) error { return nil }

// lenient never asks for tokens back.
type lenient struct{ message.Partitions }

// Ask is for [message.Partitions].
func (l lenient) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if news, ok := m.(message.DeliverPermits); ok {
		for i := range news.Grants {
			news.Grants[i].NextWaiter = message.NoNextWaiter
		}
	}
	return l.Partitions.Ask(ctx, p, m)
}
