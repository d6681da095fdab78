package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/store"
)

// ClusterOptions of a campaign with several nodes.
type ClusterOptions struct {
	ClusterConfig
	Nodes  int // that there are at all times, but for what happens to them
	Cycles int // things that go wrong
	Seed   uint64
	Only   []string                   // kinds of faults to draw from; nil = all
	Worker func(WorkerSpec) *exec.Cmd // a process that calls [Work]; nil: there is none
	Log    func(format string, args ...any)
}

// ClusterConstants are what the checker may expect of a cluster here.
var ClusterConstants = checker.Constants{
	Dispatch: 2 * time.Second, Recovery: 8 * time.Second, Apply: 100 * time.Millisecond,
	OwnerLease: 5 * time.Second, Lease: workerLease, Grace: 2 * time.Second, DrainRate: 100,
}

// clusterPartitions is how many partitions a campaign's store has.
const clusterPartitions = 16

// clusterCampaign is a campaign against a cluster.
type clusterCampaign struct {
	*workers
	*Cluster
	o        ClusterOptions
	dice     dice
	observer *Observer
	labors   []*link.Link // each worker's, to the one node that it knows

	hurting sync.Mutex
	hurt    []*Member // something is wrong with them
}

// RunCluster works a cluster over and returns what everybody saw, as [Run] does.
func RunCluster(ctx context.Context, o ClusterOptions) (r Report, err error) {
	kinds := make([]string, len(troubles))
	for i, t := range troubles {
		kinds[i] = t.kind
	}
	if err := eachKnown(o.Only, kinds); err != nil {
		return r, err
	}
	o.Flags = append([]string{"--drain-grace", "2s", "--partitions", strconv.Itoa(clusterPartitions),
		"--slow-start-step", "500ms"}, o.Flags...)
	s := &clusterCampaign{Cluster: NewCluster(o.ClusterConfig), o: o, dice: newDice(o.Seed, "nemesis")}
	defer func() { err = errors.Join(err, s.close()) }()
	record := checker.NewRecorder("cluster", o.Seed, o.Binary, ClusterConstants, nil)
	starting, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if err := s.begin(starting, record); err != nil {
		return r, err
	}
	if err := s.open(); err != nil {
		return r, err
	}
	if s.workers, err = newWorkers(record, o.Seed, s, o.Log); err != nil {
		return r, err
	}
	s.owners = s.finalOwners
	if o.Worker != nil {
		if err := s.send(o.Worker); err != nil {
			return r, err
		}
	}
	return s.whole(ctx, s.worry, s.leave)
}

// begin starts the nodes and the observer: that first, unless the nodes are the store's servers.
func (s *clusterCampaign) begin(ctx context.Context, record *checker.Recorder) error {
	observe := func() error {
		st, err := OpenStore(ctx, s.o.Store.URL, clusterPartitions)
		if err == nil {
			s.observer = Observe(st, s.o.Store.Stale, claims(record))
		}
		return err
	}
	start := func() error {
		_, err := s.Start(ctx, s.o.Nodes)
		return err
	}
	first, then := observe, start
	if s.o.Store.Of != nil {
		first, then = start, observe
	}
	if err := first(); err != nil {
		return err
	}
	return then()
}

// open makes the links of the workers that know one address.
func (s *clusterCampaign) open() error {
	for i := range laborers {
		l, err := link.Listen(s.Members()[i%s.o.Nodes].GRPC, link.Options{})
		if err != nil {
			return err
		}
		s.labors = append(s.labors, l)
	}
	return nil
}

func (s *clusterCampaign) close() error {
	errs := []error{s.Cluster.Close()}
	if s.workers != nil {
		errs = append(errs, s.dismiss())
	}
	for _, l := range s.labors {
		errs = append(errs, l.Close())
	}
	if s.observer != nil {
		errs = append(errs, s.observer.Close())
	}
	return errors.Join(errs...)
}

// some are the nodes that run: those that nothing is wrong with, and the others.
func (s *clusterCampaign) some() (well, hurt []*Member) {
	s.hurting.Lock()
	wrong := slices.Clone(s.hurt)
	s.hurting.Unlock()
	for _, m := range s.Running() {
		if slices.Contains(wrong, m) {
			hurt = append(hurt, m)
		} else {
			well = append(well, m)
		}
	}
	return well, hurt
}

// harm notes what something is wrong with.
func (s *clusterCampaign) harm(members ...*Member) {
	s.hurting.Lock()
	defer s.hurting.Unlock()
	s.hurt = members
}

// client is of [doors], as are those below.
func (s *clusterCampaign) client(d dice) (talker, error) {
	return &roamingClient{some: s.some, dice: d, conns: map[*Member]*client.Client{}}, nil
}

func (s *clusterCampaign) web(d dice) caller  { return roamingREST{some: s.some, dice: d} }
func (s *clusterCampaign) labor(i int) string { return s.labors[i].Address() }

func (s *clusterCampaign) employer() (*client.Client, error) {
	return client.Dial(s.Members()[0].Front.Address())
}

func (s *clusterCampaign) nodes() (out []*Node) {
	for _, m := range s.Running() {
		out = append(out, m.Node)
	}
	return out
}

// settleWithin is how long it may take until every partition has an owner that runs. A node that could not
// commit for a while, since the store was away or slow, tries again half a minute later at the latest.
const settleWithin = 100 * time.Second

// settle waits until everything is well again.
func (s *clusterCampaign) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, m := range s.Running() {
		names[m.Name] = true
	}
	return s.observer.Until(ctx, "all owned by those that run", func(owners []store.Owner) bool {
		return len(owners) == clusterPartitions &&
			!slices.ContainsFunc(owners, func(o store.Owner) bool { return !names[o.Node] })
	})
}

// worry does all cycles.
func (s *clusterCampaign) worry(ctx context.Context) error {
	for i := range s.o.Cycles {
		if err := s.cycle(ctx, i); err != nil {
			return fmt.Errorf("cycle %d: %w", i, err)
		}
	}
	return nil
}

// cycle lets one thing go wrong and waits until all is well.
func (s *clusterCampaign) cycle(ctx context.Context, i int) error {
	if err := pause(ctx, s.dice.between(200*time.Millisecond, 1800*time.Millisecond)); err != nil {
		return err
	}
	f := pick(s.dice, s.possible()...)
	s.log("cycle %d: %s", i, f.kind)
	s.burst()
	if err := pause(ctx, s.dice.between(0, mostBurst)); err != nil {
		return err
	}
	healed := s.record.Break(checker.Fault{Kind: s.kind(f), Holds: f.holds, Outside: f.out})
	err := f.do(s, ctx)
	if err == nil {
		s.harm()
		err = s.settle(ctx)
	}
	healed()
	if err != nil {
		return fmt.Errorf("%s: %w", f.kind, err)
	}
	return nil
}

// finalOwners is who owns what in the end, as the store has it.
func (s *clusterCampaign) finalOwners() (out []checker.Owner) {
	owners, _, _ := s.observer.Owners() // what it has seen last
	for _, o := range owners {
		out = append(out, checker.Owner{Seen: "the store", Partition: o.Partition, Node: o.Node,
			Epoch: o.Term.Epoch})
	}
	return out
}

// leave asks all nodes to end, one after the other, which each must do in good order. Of nodes that are the
// store's servers, those that are left without most of the others cannot: they are killed.
func (s *clusterCampaign) leave(ctx context.Context) error {
	for i, m := range s.Running() {
		if s.o.Store.Of != nil && 2*i >= s.o.Nodes-1 {
			if err := m.Kill(); err != nil {
				return err
			}
			continue
		}
		if err := m.Leave(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}
