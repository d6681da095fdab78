package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Timing of a node that leaves.
const (
	handedOver = 5 * time.Millisecond   // how often Leave checks whether the engine has handed over
	askAgain   = 25 * time.Millisecond  // how often Leave asks the others whether they stay
	askWithin  = 200 * time.Millisecond // how long another node may take to answer that
)

// Leave hands this node's partitions to others. It returns once the node owns nothing, nobody stays who could
// own it, or ctx ends. The node remains a member, takes calls, and forwards them to the others. With nobody
// to take over it keeps what it owns, and takes what other leaving nodes lose, until a node joins or
// [Node.Finish] is called.
func (n *Node) Leave(ctx context.Context) error {
	n.membership.apply(eventLeave)
	err := n.heartbeat(ctx)
	n.peers.lookAll(ctx, n.views.load().members)
	t := time.NewTicker(handedOver)
	defer t.Stop()
	asked := n.clock.elapsed()
	for {
		held := len(n.local.Holdings())
		switch {
		case held == 0 || !n.views.load().hasOther(n.id):
			n.peers.lookAll(ctx, n.views.load().members)
			return err
		case n.clock.elapsed()-asked >= askAgain:
			asked = n.clock.elapsed()
			_ = n.Look(ctx) // it has logged its errors
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("%d partitions were not handed over: %w", held, ctx.Err()))
		}
	}
}

// Finish tells the others that the node takes nothing any more: partitions that it releases from here on are
// theirs, even if they are leaving too.
func (n *Node) Finish(ctx context.Context) error {
	before := n.membership.state()
	n.membership.apply(eventFinish)
	if before == stateJoining || before == stateClosed {
		return nil
	}
	short, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	err := n.heartbeat(short)
	n.peers.lookAll(short, n.views.load().members)
	return err
}

// Close ends the membership, and everything that New and Start have begun. The engine must have stopped.
func (n *Node) Close(ctx context.Context) error {
	n.cancel()
	n.membership.apply(eventClose) // from here on the engine is assigned nothing
	<-n.done
	select {
	case <-n.prover.done:
	case <-ctx.Done(): // a commit may hang; the store waits for it when it is closed
	}
	n.announcer.end()
	n.telling.Wait()
	n.peers.close()
	// When the node does not count as living any more, the membership has ended by itself.
	ctx, cancel := context.WithTimeout(ctx, lifeOf(n.cfg.TTL))
	defer cancel()
	if err := n.leaser.Leave(ctx, n.id, n.cfg.Member.Nonce); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

// share returns the partitions that this node should own. It knows more about itself than the store does, and
// while it leaves it also knows more about others: see [successors].
func (n *Node) share(v *view) []int {
	mine, departs := *v, n.membership.state().departs()
	mine.members = make([]store.Member, 0, len(v.members))
	for _, m := range v.members {
		switch {
		case m.ID == n.id:
			m = n.self()
		case departs && m.Capacity > 0 && !n.successors.stay(m.Nonce):
			m.Capacity = 0
		}
		mine.members = append(mine.members, m)
	}
	return mine.share(n.id)
}

// askSuccessors asks the members that may own partitions whether they stay. The caller holds the turn.
func (n *Node) askSuccessors(ctx context.Context, v *view) {
	if !n.membership.state().departs() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	asked := n.successors.unknown(v.members, n.id)
	n.successors.record(asked, n.statuses(ctx, asked), n.clock.elapsed(), lifeOf(n.cfg.TTL))
}
