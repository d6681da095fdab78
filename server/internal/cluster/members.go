package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// errReplaced is why a node ends whose place another process has taken.
var errReplaced = errors.New("another process has joined the cluster in this node's place (node_name): this one has stopped owning " +
	"partitions and ends")

// errClosed is why a node that was closed writes no heartbeat.
var errClosed = errors.New("the node has left the cluster")

// answerWithin is how long a process whose name another one wants may take to answer.
const answerWithin = time.Second

// enter makes the node a member for the first time. If another process has its name, that process is asked:
// if it answers, this one is refused; if not, it is considered dead.
func (n *Node) enter(ctx context.Context) error {
	members, err := n.checkMembers(ctx)
	if err != nil {
		return err
	}
	switch err = n.join(ctx); {
	case errors.Is(err, store.ErrTaken) && n.cfg.Exclusive:
		err = outlive(ctx, n.cfg.TTL, n.join)
	case errors.Is(err, store.ErrTaken):
		err = n.replace(ctx, members)
	}
	if err != nil {
		return err
	}
	// Of two that start at the same time the later one sees the other.
	if _, err = n.checkMembers(ctx); err != nil {
		return err
	}
	n.prover.proveFirst(ctx)
	return n.join(ctx)
}

// checkMembers returns the living members, or an error if this node's settings or protocol do not fit theirs.
func (n *Node) checkMembers(ctx context.Context) ([]store.Member, error) {
	members, err := n.leaser.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("who is in the cluster: %w", err)
	}
	if err := checkProtocol(n.id, members); err != nil {
		return nil, err
	}
	return members, errors.Join(admitted(&n.cfg, members), compatible(n.cfg.Settings, n.id, members))
}

// replace takes the place of the member of this name, if that does not answer.
func (n *Node) replace(ctx context.Context, members []store.Member) error {
	for _, m := range members {
		if m.ID != n.id || m.Nonce == n.cfg.Member.Nonce {
			continue
		}
		if n.answers(ctx, m) {
			return fmt.Errorf("node_name: %q is the name of a node that lives, at %s: give this one another (--node-name), or end that one first",
				n.id, m.Address)
		}
		n.log.Warn("a node of this name does not answer: this one takes its place", "node", n.id,
			"address", m.Address)
		if err := n.leaser.Leave(ctx, m.ID, m.Nonce); err != nil {
			return fmt.Errorf("take the place of a dead node: %w", err)
		}
	}
	if err := n.join(ctx); err != nil {
		return fmt.Errorf("node_name: %q: %w", n.id, err)
	}
	return nil
}

// answers reports whether the process that the member stands for is alive.
func (n *Node) answers(ctx context.Context, m store.Member) bool {
	p, err := n.cfg.Dial(m)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	s, err := p.Status(ctx)
	if closed := p.Close(); closed != nil {
		n.log.Debug("close the connection to a node of the same name", "error", closed)
	}
	return err == nil && s.Nonce == m.Nonce
}

// join writes the node's heartbeat, and how much it is to own. The caller holds the turn.
func (n *Node) join(ctx context.Context) error {
	n.storeClock.measure(ctx)
	m := n.self()
	began := n.clock.elapsed()
	short, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	err := n.leaser.Join(short, m, lifeOf(n.cfg.TTL))
	switch {
	case err == nil:
		n.heartbeats.taken(began)
		n.membership.apply(eventJoined)
		return nil
	case errors.Is(err, store.ErrTaken):
		n.yield()
		return err
	case ctx.Err() != nil:
		return err // the node ends
	}
	n.heartbeats.failed()
	n.log.Warn("the node could not tell the store that it lives", "error", err)
	if f := n.cfg.Events.JoinFailed; f != nil {
		f()
	}
	return fmt.Errorf("join the cluster: %w", err)
}

// yield makes a node own nothing because another process has taken its place. Who is joining has nothing to
// lose yet, and is refused. The caller holds the turn.
func (n *Node) yield() {
	if s := n.membership.state(); s == stateJoining || s.over() {
		return
	}
	n.log.Error(errReplaced.Error(), "node", n.id)
	n.assignment.clear()
	n.membership.apply(eventTaken)
}
