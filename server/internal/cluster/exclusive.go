package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// An exclusive node is one that other nodes cannot reach, as package embedded runs it. It takes part in the
// cluster so that its ownership rests on leases and heartbeats like any other node's, but it must be the only
// member: nobody could forward a call to it.
//
//   - All exclusive nodes have the same name. So the store admits only one of them, atomically, and one that
//     comes back after its membership has lapsed finds its name taken.
//   - An exclusive node is not admitted beside any other node, nor any other node beside it ([admitted]).
//     Both look before they join and again after it, so of two that start at once at least one sees the
//     other.
//   - An exclusive node whose membership has lapsed may find that other nodes have been admitted meanwhile.
//     Then they stay, and it ends ([ousted]). It looks before it joins again ([Node.checkAlone]): as a member
//     it would be given a share, which nobody would own.

// admitted refuses a node that would share the store of an exclusive node, or that is exclusive and would
// share a store. A member of an exclusive node's own name is left to the store.
func admitted(c *Config, members []store.Member) error {
	for i := range members {
		m := &members[i]
		switch {
		case m.Nonce == c.Member.Nonce:
		case c.Exclusive && m.ID != c.Member.ID:
			return fmt.Errorf("store: node %q at %s uses it, and an embedded scheduler needs a store to itself: "+
				"end that node first, or connect to it with package client", m.ID, m.Address)
		case !c.Exclusive && conditionOf(m).Exclusive:
			return errors.New("store: a program with an embedded scheduler uses it, which needs a store to itself: end that program first")
		}
	}
	return nil
}

// ousted reports whether an exclusive node has to end: another node is able to own partitions. A node that
// has not been admitted has no capacity.
func ousted(c *Config, members []store.Member) bool {
	for i := range members {
		if c.Exclusive && members[i].Nonce != c.Member.Nonce && members[i].Capacity > 0 {
			return true
		}
	}
	return false
}

// checkAlone fails if an exclusive node must not join again because its membership has lapsed and another
// node has been admitted, or may have been. The caller holds the turn.
func (n *Node) checkAlone(ctx context.Context) error {
	if !n.cfg.Exclusive || n.heartbeats.age() < lifeOf(n.cfg.TTL) {
		return nil
	}
	short, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	members, err := n.leaser.Members(short)
	if err != nil {
		n.heartbeats.failed()
		return fmt.Errorf("look for other members: %w", err)
	}
	if ousted(&n.cfg, members) {
		n.yield()
		return errReplaced
	}
	return nil
}

// withdraw ends the membership of an exclusive node beside which another one has been admitted. The caller
// holds the turn.
func (n *Node) withdraw(ctx context.Context) error {
	n.yield()
	short, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	return errors.Join(errReplaced, n.leaser.Leave(short, n.id, n.cfg.Member.Nonce))
}

// joinParts is how often, in a TTL, an exclusive node tries to join whose name is taken.
const joinParts = 16

// outlive joins as soon as the member of an exclusive node's name has ended, and fails if that lives on. The
// other process cannot be asked. If it is dead, its membership ends within life.
func outlive(ctx context.Context, ttl time.Duration, join func(context.Context) error) error {
	end := time.Now().Add(lifeOf(ttl) + ttl/joinParts)
	for {
		select {
		case <-time.After(ttl / joinParts):
		case <-ctx.Done():
			return ctx.Err()
		}
		err := join(ctx)
		if !errors.Is(err, store.ErrTaken) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("store: another process with an embedded scheduler uses it: end that one first, or run nodes (carillon serve) "+
				"and connect to them with package client: %w", err)
		}
	}
}
