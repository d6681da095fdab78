package chaos

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
	"github.com/carillonhq/carillon/server/internal/testing/link"
)

// trouble is something that can go wrong with a cluster, and is over when do returns, but for what nodes need
// to recover.
type trouble struct {
	kind   string
	weight int
	do     func(s *clusterCampaign, ctx context.Context) error
	needs  func(s *clusterCampaign) bool // nil: nothing
	holds  bool                          // what is on its way to workers may be held up
	out    bool                          // also when it has left the last node
}

// troubles are all of them.
var troubles = []trouble{
	{kind: "kill one", weight: 4, do: (*clusterCampaign).killOne},
	{kind: "kill most", weight: 2, do: (*clusterCampaign).killMost},
	{kind: "kill all", weight: 1, do: (*clusterCampaign).killAll},
	{kind: "kill while leaving", weight: 1, do: (*clusterCampaign).killLeaving},
	{kind: "leave and come", weight: 2, do: (*clusterCampaign).leaveAndCome},
	{kind: "restart one after the other", weight: 1, do: (*clusterCampaign).roll},
	{kind: "freeze", weight: 3, do: (*clusterCampaign).freezeOne, holds: true},
	{kind: "cut off from the store", weight: 3, do: (*clusterCampaign).cutStore, needs: linked},
	{kind: "slow store", weight: 1, do: (*clusterCampaign).slowStore, needs: linked},
	{kind: "cut off from peers", weight: 2, do: (*clusterCampaign).cutPeers, needs: apart, holds: true},
	{kind: "cut off from peers and the store", weight: 2, do: (*clusterCampaign).cutPeers, needs: inside, holds: true},
	{kind: "cut off from clients", weight: 1, do: (*clusterCampaign).cutClients, holds: true, out: true},
	{kind: "one more", weight: 2, do: (*clusterCampaign).addOne},
	{kind: "one less", weight: 2, do: (*clusterCampaign).removeOne, needs: larger},
	{kind: "store restarts", weight: 2, do: (*clusterCampaign).restartStore, needs: mortal},
	{kind: "start while the store is away", weight: 1, do: (*clusterCampaign).startAway, needs: mortal},
	{kind: "leave all at once", weight: 2, do: (*clusterCampaign).leaveAll},
	{kind: "worker halted", weight: 2, do: (*clusterCampaign).haltWorker,
		needs: (*clusterCampaign).hasWorker, holds: true, out: true},
	{kind: "store fails over", weight: 3, do: (*clusterCampaign).failover, needs: paired},
}

func larger(s *clusterCampaign) bool { return len(s.Members()) > s.o.Nodes }
func mortal(s *clusterCampaign) bool { return s.o.Store.Down != nil }
func paired(s *clusterCampaign) bool { return s.o.Store.Failover != nil }

// kind is what is noted of a trouble. Where the store is in the nodes, who kills some of them kills servers
// of the store, and the others may lose what they own.
func (s *clusterCampaign) kind(t trouble) string {
	if inside(s) && strings.HasPrefix(t.kind, "kill") {
		return t.kind + " and its server of the store"
	}
	return t.kind
}

func (s *clusterCampaign) hasWorker() bool { return s.o.Worker != nil }

func linked(s *clusterCampaign) bool { return s.o.Store.Address != "" || inside(s) }
func inside(s *clusterCampaign) bool { return s.o.Store.Of != nil } // the store is in the nodes
func apart(s *clusterCampaign) bool  { return !inside(s) }

// possible are the troubles that can happen now, each as often as it weighs.
func (s *clusterCampaign) possible() (out []trouble) {
	for _, t := range troubles {
		if (t.needs != nil && !t.needs(s)) || (len(s.o.Only) > 0 && !slices.Contains(s.o.Only, t.kind)) {
			continue
		}
		for range t.weight {
			out = append(out, t)
		}
	}
	return out
}

// How long something lasts: from less than a lease to more than one.
const (
	leastTrouble = 300 * time.Millisecond
	mostTrouble  = 7 * time.Second
)

// last waits as long as a trouble lasts.
func (s *clusterCampaign) last(ctx context.Context) error {
	return pause(ctx, s.dice.between(leastTrouble, mostTrouble))
}

// one is a member that runs.
func (s *clusterCampaign) one() *Member { return pick(s.dice, s.Running()...) }

func (s *clusterCampaign) killOne(ctx context.Context) error { return s.killSome(ctx, s.one()) }

func (s *clusterCampaign) killMost(ctx context.Context) error {
	return s.killSome(ctx, without(s.Running(), s.one())...)
}

func (s *clusterCampaign) killAll(ctx context.Context) error { return s.killSome(ctx, s.Running()...) }

// killSome kills some at the same time and starts them again.
func (s *clusterCampaign) killSome(ctx context.Context, some ...*Member) error {
	for _, m := range some {
		if err := m.Kill(); err != nil {
			return err
		}
	}
	if err := s.last(ctx); err != nil {
		return err
	}
	for _, m := range some {
		if err := m.Start(); err != nil {
			return err
		}
	}
	return nil
}

// killLeaving kills a node while it leaves.
func (s *clusterCampaign) killLeaving(ctx context.Context) error {
	m := s.one()
	if err := m.Term(); err != nil {
		return err
	}
	if err := pause(ctx, s.dice.between(0, time.Second)); err != nil {
		return err
	}
	return s.killSome(ctx, m)
}

// leaveAndCome has a node leave in good order and starts it again.
func (s *clusterCampaign) leaveAndCome(ctx context.Context) error {
	m := s.one()
	if err := m.Leave(ctx); err != nil {
		return err
	}
	if err := s.last(ctx); err != nil {
		return err
	}
	return m.Start()
}

// roll restarts all nodes, one after the other.
func (s *clusterCampaign) roll(ctx context.Context) error {
	for _, m := range s.Running() {
		if err := m.Leave(ctx); err != nil {
			return err
		}
		if err := m.Start(); err != nil {
			return err
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// freezeOne halts a node for a while.
func (s *clusterCampaign) freezeOne(ctx context.Context) error {
	m := s.one()
	s.harm(m)
	from := time.Now()
	if err := m.Freeze(); err != nil {
		return err
	}
	err := errors.Join(s.last(ctx), m.Thaw())
	s.halts = append(s.halts, deliveries.Break{Kind: "freeze", From: from, To: time.Now(),
		Holds: true, Node: m.Name})
	return err
}

// cutStore cuts a node off from the store, and from nobody else.
func (s *clusterCampaign) cutStore(ctx context.Context) error {
	m := s.one()
	s.harm(m)
	s.CutStore(m, pick(s.dice, link.Silent, link.Silent, link.Broken))
	defer s.Heal()
	return s.last(ctx)
}

// slowStore makes each answer of the store take longer, for one node or for all.
func (s *clusterCampaign) slowStore(ctx context.Context) error {
	slow := []*Member{s.one()}
	if s.dice.chance(2) {
		slow = s.Running()
	}
	delay := pick(s.dice, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond)
	for _, m := range slow {
		m.SlowStore(delay)
	}
	err := s.last(ctx)
	for _, m := range slow {
		m.SlowStore(0)
	}
	return err
}

// cutPeers cuts a node off from the others, and from nobody else. If the store is in them, that includes it.
func (s *clusterCampaign) cutPeers(ctx context.Context) error {
	m := s.one()
	s.harm(m)
	s.Isolate(m, pick(s.dice, link.Silent, link.Silent, link.Broken))
	defer s.Heal()
	return s.last(ctx)
}

// cutClients cuts a node off from clients and workers.
func (s *clusterCampaign) cutClients(ctx context.Context) error {
	i := s.dice.IntN(s.o.Nodes)
	m, fault := s.Members()[i], pick(s.dice, link.Silent, link.Silent, link.Broken)
	s.harm(m)
	cut := []*link.Link{m.Front}
	m.Front.CutFrom(Outside, fault)
	for k, l := range s.labors {
		if k%s.o.Nodes == i {
			l.Cut(fault)
			cut = append(cut, l)
		}
	}
	err := s.last(ctx)
	for _, l := range cut {
		l.Heal()
	}
	return err
}

// addOne starts one node more.
func (s *clusterCampaign) addOne(context.Context) error {
	m, err := s.Add()
	if err != nil {
		return err
	}
	return m.Start()
}

// removeOne takes out a node that was added, one way or the other.
func (s *clusterCampaign) removeOne(ctx context.Context) error {
	m := pick(s.dice, s.Members()[s.o.Nodes:]...)
	end := func() error { return m.Leave(ctx) }
	if s.dice.chance(3) {
		end = m.Kill
	}
	return errors.Join(end(), s.Remove(m))
}

// restartStore ends the store's server by force and starts it again.
func (s *clusterCampaign) restartStore(ctx context.Context) error {
	s.o.Store.Down()
	err := pause(ctx, s.dice.between(0, 3*time.Second))
	s.o.Store.Up()
	return err
}

// startAway starts a node while the store is away: it waits for it.
func (s *clusterCampaign) startAway(ctx context.Context) error {
	m := s.one()
	if err := m.Kill(); err != nil {
		return err
	}
	s.o.Store.Down()
	err := errors.Join(m.Start(), pause(ctx, s.dice.between(0, 3*time.Second)))
	s.o.Store.Up()
	return err
}

// leaveAll asks all nodes to leave at the same time, as a host does that shuts down, and starts them again.
func (s *clusterCampaign) leaveAll(ctx context.Context) error {
	all := s.Running()
	for _, m := range all {
		if err := m.Term(); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := m.Left(ctx); err != nil {
			return err
		}
	}
	if err := s.last(ctx); err != nil {
		return err
	}
	for _, m := range all {
		if err := m.Start(); err != nil {
			return err
		}
	}
	return nil
}

// haltWorker halts a worker, which then is silent and keeps its connection.
func (s *clusterCampaign) haltWorker(ctx context.Context) error {
	return s.away.halt(ctx, s.book, s.dice.between(workerLease+workerLease/2, 4*workerLease))
}

// failover ends the store's primary by force and has its standby take its place.
func (s *clusterCampaign) failover(context.Context) error {
	s.o.Store.Failover()
	return nil
}
