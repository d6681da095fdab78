package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Status implements [Control].
func (n *Node) Status(context.Context) (Status, error) {
	s := n.storeClock.skew()
	status := Status{ID: n.id, Nonce: n.cfg.Member.Nonce, Skew: s.ahead(), SkewKnown: s.known,
		Leaving: n.membership.state().departs()}
	if _, err := n.cfg.Trouble(); err != nil {
		status.Trouble = err.Error()
	}
	return status, nil
}

// SetDraining implements [Control].
func (n *Node) SetDraining(ctx context.Context, nonce uint64, on bool) error {
	if nonce != n.cfg.Member.Nonce {
		return carillon.Errorf(carillon.FailedPrecondition, "id",
			"%q has been restarted meanwhile: look at carillon cluster status, and say it again "+
				"if the new process is meant as well", n.id)
	}
	if !on {
		n.membership.apply(eventRestore)
		return n.heartbeat(ctx)
	}
	if err := n.retire(ctx); err != nil {
		return err
	}
	return n.heartbeat(ctx)
}

// retire records, in the store and here, that the node is to own nothing. The store checks in the same step
// that it is not the last one: of nodes that are drained at the same time one stays.
func (n *Node) retire(ctx context.Context) error {
	if err := n.views.take(ctx); err != nil {
		return err
	}
	defer n.views.release()
	switch n.membership.state() {
	case stateReplaced:
		return errReplaced
	case stateDrained:
		return nil
	}
	short, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	m := n.cfg.Member
	m.State = (&condition{Phase: phaseDrained, Speaks: protocolVersion(), Exclusive: n.cfg.Exclusive}).text()
	err := n.leaser.Retire(short, m, lifeOf(n.cfg.TTL))
	switch {
	case err == nil:
		n.membership.apply(eventDrain)
		return nil
	case errors.Is(err, store.ErrLast):
		return carillon.Errorf(carillon.FailedPrecondition, "id",
			"no other node could take the partitions of %q: the others are drained, leaving, or off in their clocks, or there are none; "+
				"start another one first, or rebalance", n.id)
	}
	return fmt.Errorf("tell the store: %w", err) // if it was done all the same, the next heartbeat undoes it
}

// statusWithin is how long a node may take to report its clock.
const statusWithin = 500 * time.Millisecond

// ClusterStatus implements [carillon.Cluster]. While the store cannot be read it is what this node has read
// last, with a warning, and with what the nodes that can be reached say now.
func (n *Node) ClusterStatus(ctx context.Context) (carillon.ClusterStatus, error) {
	var s carillon.ClusterStatus
	v, err := n.fresh(ctx)
	if err != nil {
		if v = n.views.load(); len(v.members) == 0 {
			return s, err
		}
	}
	for _, o := range v.owners {
		s.Partitions = append(s.Partitions,
			carillon.PartitionOwner{Partition: o.Partition, Epoch: o.Term.Epoch, Node: o.Node, Until: o.Until})
	}
	s.Nodes, s.Warnings = v.nodes(), differences(v.members)
	if err != nil {
		s.Warnings = append(s.Warnings, fmt.Sprintf("this is as node %q read it at %s: %v", n.id,
			v.at.UTC().Format(time.RFC3339), errors.Unwrap(err)))
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	said := n.statuses(ctx, v.members)
	for i := range s.Nodes {
		status := said[s.Nodes[i].ID] // the clock of one that says nothing stays unknown
		s.Nodes[i].Skew, s.Nodes[i].SkewKnown = status.Skew, status.SkewKnown
		s.Nodes[i].Reason = cmp.Or(status.Trouble, s.Nodes[i].Reason)
	}
	return s, nil
}

// statuses returns what the members say of themselves, by id, as far as they do.
func (n *Node) statuses(ctx context.Context, of []store.Member) map[string]Status {
	return answers(n.peers, of, func(_ store.Member, c Control) (Status, error) { return c.Status(ctx) })
}

// fresh looks, and returns the new view.
func (n *Node) fresh(ctx context.Context) (*view, error) {
	if err := n.Look(ctx); err != nil {
		err = fmt.Errorf("the store could not be read: %w", err)
		return nil, carillon.Errorf(carillon.Unavailable, "", "%w", err)
	}
	return n.views.load(), nil
}

// DrainNode implements [carillon.Cluster].
func (n *Node) DrainNode(ctx context.Context, id string) error {
	v, err := n.fresh(ctx)
	if err != nil {
		return err
	}
	m, lives := v.member(id)
	if !lives {
		return carillon.Errorf(carillon.NotFound, "id", "no living node is called %.64q", id)
	}
	c, done, err := n.peers.control(m)
	if err == nil {
		err = c.SetDraining(ctx, m.Nonce, true)
		done()
	}
	switch {
	case errors.Is(err, carillon.FailedPrecondition):
		return err
	case err != nil:
		told := carillon.Errorf(carillon.Unavailable, "id", "node %.64q could not be told: %w", id, err)
		e, ok := errors.AsType[*carillon.Error](err)
		// It may have noted it without getting through to the store.
		told.Unknown = !errors.Is(err, ErrUnreached) && (!ok || e.Unknown)
		return told
	}
	n.peers.lookAll(ctx, n.views.load().members)
	return nil
}

// Rebalance implements [carillon.Cluster].
func (n *Node) Rebalance(ctx context.Context) error {
	v, err := n.fresh(ctx)
	if err != nil {
		return err
	}
	told := answers(n.peers, v.members, func(m store.Member, c Control) (bool, error) {
		return true, c.SetDraining(ctx, m.Nonce, false)
	})
	var not []string
	for _, m := range v.members {
		if !told[m.ID] {
			not = append(not, fmt.Sprintf("%q", m.ID))
		}
	}
	n.peers.lookAll(ctx, n.views.load().members) // the first ones have not seen what the last ones wrote
	if len(not) > 0 {
		return carillon.Errorf(carillon.Unavailable, "", "nodes that could not be told: %s",
			strings.Join(not, ", "))
	}
	return nil
}

// WatchNodes implements [carillon.Cluster].
func (n *Node) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	var told []carillon.Node
	for first := true; ; first = false {
		v := n.views.load()
		if nodes := v.nodes(); first || !slices.EqualFunc(nodes, told, sameNode) {
			if err := f(nodes); err != nil {
				return err
			}
			told = nodes
		}
		select {
		case <-v.next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sameNode reports whether nothing has changed that a watcher is told of. How much a node owns is not.
func sameNode(a, b carillon.Node) bool {
	a.Owns = b.Owns
	return a == b
}

// Stats holds figures about a node's part in the cluster.
type Stats struct {
	Members int
	Skew    time.Duration
	Unfit   bool
	Refused int // partitions that it cannot serve
}

// Stats returns the node's figures.
func (n *Node) Stats() Stats {
	fit, _, refuses := n.prover.fitness.report()
	return Stats{Members: len(n.views.load().members), Skew: n.storeClock.skew().ahead(), Unfit: !fit,
		Refused: len(refuses)}
}
