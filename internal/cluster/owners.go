package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/store"
)

// view is who lived and who owned what when the store was last asked. It is never changed.
type view struct {
	members []store.Member // that live, by id
	owners  []store.Owner  // by partition; Node is empty if nobody owns it
	at      time.Time      // about when that was, by the store's clock
	next    chan struct{}  // closed when there is a newer one
}

func newView(members []store.Member, owners []store.Owner, parts int, at time.Time) *view {
	v := &view{members: members, owners: make([]store.Owner, parts), at: at, next: make(chan struct{})}
	for p := range v.owners {
		v.owners[p].Partition = p
	}
	for _, o := range owners {
		if o.Partition < parts {
			v.owners[o.Partition] = o
		}
	}
	return v
}

// member finds a living node.
func (v *view) member(id string) (m store.Member, lives bool) {
	i := slices.IndexFunc(v.members, func(m store.Member) bool { return m.ID == id })
	if id == "" || i < 0 {
		return m, false
	}
	return v.members[i], true
}

// hasOther reports whether a node besides that one is there to own partitions.
func (v *view) hasOther(id string) bool {
	return slices.ContainsFunc(v.members, func(m store.Member) bool { return m.ID != id && m.Capacity > 0 })
}

// staysNobody reports whether no node besides that one may come to own anything: if all leave, one that has not ended may.
func (v *view) staysNobody(id string) bool {
	return !v.hasOther(id) && !slices.ContainsFunc(v.members, func(m store.Member) bool {
		return m.ID != id && conditionOf(&m).Phase == phaseLeaving
	})
}

// owned is how many partitions a node owns: those that it has the lease of, and does not say that it cannot serve.
func (v *view) owned(id string, refuses []int) (n int) {
	for p := range v.owners {
		if o := &v.owners[p]; o.Node == id && v.holds(o) && !slices.Contains(refuses, p) {
			n++
		}
	}
	return n
}

// heirs are the members who may own a partition that one of them does not own any more: first who should.
func (v *view) heirs(of string, p int) []store.Member {
	rest := slices.DeleteFunc(slices.Clone(v.members), func(m store.Member) bool { return m.ID == of })
	owners := allot(rest, v.owners)
	if i := slices.IndexFunc(rest, func(m store.Member) bool { return m.ID == owners[p] }); i > 0 {
		rest[0], rest[i] = rest[i], rest[0]
	}
	return rest
}

// share is the partitions that a node should own.
func (v *view) share(id string) (mine []int) {
	for p, owner := range allot(v.members, v.owners) {
		if owner == id {
			mine = append(mine, p)
		}
	}
	return mine
}

// bid is what speaks for a member to own a partition.
type bid struct {
	score     uint64
	member    string
	partition int
}

// shares is which member should own each partition; empty if none may own anything. It is rendezvous hashing with shares of one
// size: the highest scores of all come first, and a member that has its share takes no more. When nodes come or go, little more
// moves than must: 1.08 times on the way from 3 nodes to 5, where hashing alone gives a node between 5 and 22 of 64.
func shares(members []store.Member, parts int) []string {
	var bids []bid
	able := 0
	for _, m := range members {
		if m.Capacity == 0 {
			continue
		}
		able++
		for p := range parts {
			bids = append(bids, bid{score(m.ID, p), m.ID, p})
		}
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member), cmp.Compare(a.partition, b.partition))
	})
	owners := make([]string, parts)
	has := map[string]int{}
	for _, b := range bids {
		if owners[b.partition] == "" && has[b.member] < (parts+able-1)/able {
			owners[b.partition] = b.member
			has[b.member]++
		}
	}
	return owners
}

// score is FNV-1a 64 of the node's id, mixed with the partition by the finaliser of MurmurHash3. All nodes of a cluster must
// compute the same, also while they are of different versions.
func score(id string, partition int) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * prime
	}
	return mix(mix(h) + uint64(partition)*0x9e3779b97f4a7c15)
}

// mix is the finaliser: each bit of the result depends on all of h.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// poll reads a new view and acts on it. The caller has the turn. If it fails the old view stays: what the node owns is the
// business of the leases.
func (n *Node) poll(ctx context.Context) error {
	began := n.elapsed()
	short, cancel := n.patience(ctx)
	defer cancel()
	members, err := n.leaser.Members(short)
	if err != nil {
		return n.notSeen(ctx, err)
	}
	owners, err := n.leaser.Owners(short)
	if err != nil {
		return n.notSeen(ctx, err)
	}
	n.polled = began
	n.answered.Store(int64(began))
	v := newView(members, owners, n.parts, n.StoreNow())
	n.seekHeirs(ctx, v)
	before := n.view.Swap(v)
	close(before.next)
	n.outages.look(v, began, n.cfg.TTL/unfitParts)
	n.assign(v)
	n.compare(members)
	n.peers.keep(members, n.id)
	n.welcome(before.members, members)
	return nil
}

func (n *Node) notSeen(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		n.log.Debug("the members and owners could not be read", "error", err)
	}
	return fmt.Errorf("who is in the cluster: %w", err)
}

// assign tells the engine what it is to own, if that has changed. A node that finds itself missing has not been heard of for too
// long; it keeps what it has the leases of, and the next heartbeat puts it back.
func (n *Node) assign(v *view) {
	if n.isReplaced() || n.isStopped() {
		return
	}
	if me, here := v.member(n.id); !here || me.Nonce != n.cfg.Member.Nonce {
		return
	}
	if mine := n.share(v); !n.known || !slices.Equal(mine, n.assigned) {
		n.log.Info("the node's share of the partitions has changed", "partitions", len(mine), "before", len(n.assigned), "of", n.parts,
			"nodes", len(v.members))
		n.assigned, n.known = mine, true
		n.local.Assign(mine)
	}
	if !n.settled.Load() && n.holdsAll() {
		n.settled.Store(true)
	}
}

// holdsAll reports whether the engine owns all that it is to own.
func (n *Node) holdsAll() bool {
	held := n.held()
	return !slices.ContainsFunc(n.assigned, func(p int) bool { return !held[p] })
}

// lost is what the node is to own, and owns by the store's book, but not in fact: it gave the terms up when it could not reach
// the store. What others own still, or nobody yet, is not lost.
func (n *Node) lost() []int {
	v, held := n.view.Load(), n.held()
	return slices.DeleteFunc(n.share(v), func(p int) bool { return held[p] || v.owners[p].Node != n.id })
}

// held is what the engine owns.
func (n *Node) held() map[int]bool {
	held := map[int]bool{}
	for _, h := range n.local.Holdings() {
		held[h.Partition] = true
	}
	return held
}
