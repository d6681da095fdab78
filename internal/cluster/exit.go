package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/store"
)

// exit is the state of a node that was told to end.
type exit struct {
	leaving atomic.Bool // it keeps only partitions that no other node could own
	ended   atomic.Bool // it takes nothing any more

	// Guarded by the turn.
	heirs   map[uint64]bool          // by nonce: whether the member has said that it stays
	unheard map[uint64]time.Duration // since when other members have not answered that question
}

// handedOver is how often Leave checks whether the engine has handed over.
const handedOver = 5 * time.Millisecond

// askAgain is how often Leave asks the others whether they stay.
const askAgain = 25 * time.Millisecond

// Leave hands this node's partitions to others. It returns once the node owns nothing, nobody stays who could
// own it, or ctx ends. The node remains a member, takes calls, and forwards them to the others. With nobody
// to take over it keeps what it owns, and takes what other leaving nodes lose, until a node joins or
// [Node.Finish] is called.
func (n *Node) Leave(ctx context.Context) error {
	n.exit.leaving.Store(true)
	err := n.heartbeat(ctx)
	n.tellAll(ctx)
	t := time.NewTicker(handedOver)
	defer t.Stop()
	asked := n.elapsed()
	for {
		held := len(n.local.Holdings())
		switch {
		case held == 0 || !n.view.Load().hasOther(n.id):
			n.tellAll(ctx)
			return err
		case n.elapsed()-asked >= askAgain:
			asked = n.elapsed()
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
	n.exit.leaving.Store(true)
	n.exit.ended.Store(true)
	if !n.isMember() {
		return nil
	}
	short, cancel := n.patience(ctx)
	defer cancel()
	return n.heartbeat(short)
}

// isMember reports whether the node has been a member.
func (n *Node) isMember() bool { return n.joined.Load() > 0 }

// share returns the partitions that this node should own. It knows more about itself than the store does. It
// may also know more about others: one that was told to end a moment ago has not written that yet. So while
// this node leaves, only members that have said that they stay are counted.
func (n *Node) share(v *view) []int {
	mine := *v
	mine.members = make([]store.Member, 0, len(v.members))
	for _, m := range v.members {
		switch {
		case m.ID == n.id:
			m = n.self()
		case n.exit.leaving.Load() && m.Capacity > 0 && !n.exit.heirs[m.Nonce]:
			m.Capacity = 0
		}
		mine.members = append(mine.members, m)
	}
	return mine.share(n.id)
}

// askWithin is the timeout for asking another node whether it stays.
const askWithin = 200 * time.Millisecond

// seekHeirs asks the members that may own partitions whether they stay. One that has not answered for as long
// as it counts as living is assumed to stay, since the store knows that it lives. The caller holds the turn.
func (n *Node) seekHeirs(ctx context.Context, v *view) {
	if !n.exit.leaving.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var mu sync.Mutex
	answers := map[uint64]bool{}
	var unknown []store.Member
	for _, m := range v.members {
		if m.ID != n.id && m.Capacity > 0 && !n.exit.heirs[m.Nonce] {
			unknown = append(unknown, m)
		}
	}
	n.each(unknown, func(m store.Member, c Control) {
		if s, err := c.Status(ctx); err == nil && s.Nonce == m.Nonce {
			mu.Lock()
			defer mu.Unlock()
			answers[m.Nonce] = !s.Leaving
		}
	})
	if n.exit.heirs == nil {
		n.exit.heirs, n.exit.unheard = map[uint64]bool{}, map[uint64]time.Duration{}
	}
	now := n.elapsed()
	for _, m := range unknown {
		stays, heard := answers[m.Nonce]
		since, before := n.exit.unheard[m.Nonce]
		switch {
		case heard:
			delete(n.exit.unheard, m.Nonce)
			n.exit.heirs[m.Nonce] = stays
		case !before:
			n.exit.unheard[m.Nonce] = now
		case now-since >= n.life():
			n.exit.heirs[m.Nonce] = true
		}
	}
}
