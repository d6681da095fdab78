package cluster

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Who owns partition 7? There are five answers, and they may differ for a moment:
//
//	allot (allot.go)       who should own it, computed from the members (and, while all of them leave, from
//	                       the owners): who reads the same agrees
//	Leaser.Owners (store)  who has claimed it last, and until when the lease lasts: the store's truth
//	view.owners (here)     what Leaser.Owners said when this node last asked, up to a heartbeat ago
//	published (engine)     the term that the store gave to this node, from the claim on: Engine.Holdings
//	serving (engine)       state owned of engine/ownership.go: the partition is loaded, calls are answered
//
//	members -allot-> share -Assign-> engine: Claim -> published -> load -> serving
//	                                            |
//	                            Leaser.Owners <-+     view.owners <-poll- Leaser.Owners
//
// Each is used where it is good enough. allot decides what the engine is told to claim and to hand over.
// view.owners only tells the router where to try a call first: if it is wrong, that node refuses with
// ErrNotOwner and the router tries again. published says which leases to renew. serving says whether calls
// are answered here. None of them is what keeps two owners from writing: the store checks the term of every
// write, and refuses one that is not the newest.
//
// view is which members lived and who owned what when the store was last asked. It is never changed.
type view struct {
	members []store.Member // living members, by id
	owners  []store.Owner  // by partition; Node is empty if nobody owns it
	at      time.Time      // the store's time at which it was read, approximately
	next    chan struct{}  // closed when there is a newer view
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

// member returns a living node by id.
func (v *view) member(id string) (m store.Member, lives bool) {
	i := slices.IndexFunc(v.members, func(m store.Member) bool { return m.ID == id })
	if id == "" || i < 0 {
		return m, false
	}
	return v.members[i], true
}

// hasOther reports whether there is a member other than id that may own partitions.
func (v *view) hasOther(id string) bool {
	return slices.ContainsFunc(v.members, func(m store.Member) bool { return m.ID != id && m.Capacity > 0 })
}

// remainsNobody reports whether no node other than id may come to own anything. If all nodes are leaving, one
// that has not ended may.
func (v *view) remainsNobody(id string) bool {
	return !v.hasOther(id) && !slices.ContainsFunc(v.members, func(m store.Member) bool {
		return m.ID != id && conditionOf(&m).Phase == phaseLeaving
	})
}

// owned returns how many partitions a node owns: those that it has a valid lease for and does not say that it
// cannot serve.
func (v *view) owned(id string, refuses []int) (n int) {
	for p := range v.owners {
		if o := &v.owners[p]; o.Node == id && v.holds(o) && !slices.Contains(refuses, p) {
			n++
		}
	}
	return n
}

// heirs returns the members that may own a partition which member of no longer owns. The one that should own
// it comes first.
func (v *view) heirs(of string, p int) []store.Member {
	rest := slices.DeleteFunc(slices.Clone(v.members), func(m store.Member) bool { return m.ID == of })
	owners := allot(rest, v.owners)
	if i := slices.IndexFunc(rest, func(m store.Member) bool { return m.ID == owners[p] }); i > 0 {
		rest[0], rest[i] = rest[i], rest[0]
	}
	return rest
}

// share returns the partitions that a node should own.
func (v *view) share(id string) (mine []int) {
	for p, owner := range allot(v.members, v.owners) {
		if owner == id {
			mine = append(mine, p)
		}
	}
	return mine
}

// bid is a member's score for a partition.
type bid struct {
	score     uint64
	member    string
	partition int
}

// shares returns which member should own each partition; empty if none may own anything. It is rendezvous
// hashing with shares of equal size: bids are taken in order of their scores, and a member that has its share
// takes no more. When nodes come or go, little more moves than must: 1.08 times as much on the way from 3
// nodes to 5, where hashing alone gives a node between 5 and 22 of 64.
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
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member),
			cmp.Compare(a.partition, b.partition))
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

// score is FNV-1a 64 of the node's id, mixed with the partition by the finalizer of MurmurHash3. All nodes of
// a cluster must compute the same score, also across versions.
func score(id string, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return mix(mix(h.Sum64()) + uint64(partition)*0x9e3779b97f4a7c15)
}

// mix is the finalizer: each bit of the result depends on all bits of h.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
