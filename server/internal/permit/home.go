package permit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
	"github.com/carillonhq/carillon/server/store"
)

// In a cluster a limit holds over all nodes at every moment, whatever is taken over and whatever the network
// does to messages (docs/decisions/0032). One partition, found by hashing namespace and key, is the home of
// the limit. Its [Home] allocates permits to partitions, not to nodes. Each partition has a
// [Pool], which uses what it was allocated and nothing else.
//
//	partition with runs that wait                   home of the limit
//	Pool                                      Home
//	  Asks ── Request{Stamp, Hold, Want} ───►   Answer: takes back what is not held,
//	                                                  serves the best waiter while the sum < limit
//	                                                  Write: the allocations, durable first
//	  Answered, Hear ◄── Grant{Stamp, N} ────   the answer, or a notice
//	  uses N permits
//	  ◄───────── Grant{NextWaiter} ──────────   somebody else waits, with this order
//	  a permit comes free: keeps it only for a run
//	  that goes before NextWaiter, else returns it
//	  ── Request{Hold: fewer} ──────────────►   serves the next waiter
//
// An allocation is a metadata record (store.KindAllocation) in the home's partition, durable before anybody
// is told of it, so a new home knows it. An allocation may be too large for a while, which only leaves
// permits idle, but never too small. Stamps ensure that. Each grant that begins or grows has a greater stamp
// than any before, and a pool accepts only newer ones. A request carries the newest stamp that the pool
// knows. If the home has a newer grant out, it ignores the request: the pool may be about to use that grant.
// Requests of older terms of a partition are ignored, too. The first request of a newer term replaces the
// allocation by what that owner found in force, since nobody can use more. Lost messages heal by themselves:
// a pool that waits asks again every second, and the home's Poll reminds the holders of permits that others
// wait for.

// Home allocates the permits of the limits whose home is one partition, under one term. Nothing that it
// says may be sent before what [Home.Write] returns is durable.
type Home struct {
	epoch   uint64
	stamps  uint64
	limitOf func(delivery.Limit) (n int, limited bool)
	rateOf  func(delivery.Limit) (rate carillon.Rate, limited bool)

	now, wall int64 // of the last Tick

	accounts map[delivery.Limit]*account
	filling  heaps.Of[*filling] // rates for which somebody waits
	levels   []*account         // rates whose levels have changed
	ring     []delivery.Limit   // accounts in the order in which Poll visits them; some no longer exist
	ringed   map[delivery.Limit]bool
	changed  []*allocation
	notices  []Notice
}

// Notice is a grant to be sent to a partition.
type Notice struct {
	Partition int
	message.PermitGrant
}

// account holds the allocations of one limit, and the partitions that wait for it.
type account struct {
	key         delivery.Limit
	sum         int // permits allocated
	allocations map[int]*allocation
	waiting     heaps.Of[*allocation]
	since       int64    // when it was made
	fills       *filling // of a rate; nil: it is of permits
}

// allocation holds the permits that one partition is allocated, and its request for more.
type allocation struct {
	account    *account
	p          int
	term       store.Term
	stamp      message.Stamp
	n          int
	want       int
	order      int64
	nextWaiter int64 // the one that the partition was told of

	spent uint64 // of a rate: permits that the partition has used up, as it said last

	at      int32 // index in waiting; -1: does not wait
	noted   bool  // it is in changed
	written bool  // the store has a record of it
}

// NewHome makes the home for a term. limitOf returns the limit of a key, rateOf that of a rate, with its
// defaults. With rates, Tick must be called before Load, and before whatever else comes in.
func NewHome(term store.Term, limitOf func(delivery.Limit) (int, bool),
	rateOf func(delivery.Limit) (carillon.Rate, bool)) *Home {
	return &Home{epoch: term.Epoch, limitOf: limitOf, rateOf: rateOf, accounts: map[delivery.Limit]*account{},
		ringed: map[delivery.Limit]bool{}}
}

// Load takes the metadata records of kind store.KindAllocation, at takeover. Partitions that wait ask again
// by themselves.
func (h *Home) Load(records []store.MetaRecord) error {
	for _, r := range records {
		if l, ok := permitrecord.ParseLevel(&r); ok {
			h.loadLevel(&l)
			continue
		}
		a, ok := permitrecord.ParseAllocation(&r)
		if !ok {
			return fmt.Errorf("the record of the permits %q is damaged", r.Key)
		}
		g := h.account(a.Limit).to(a.Partition)
		g.term, g.n, g.stamp, g.written, g.spent = a.Term, a.N, h.stamp(), true, a.Spent
		g.account.sum += a.N
	}
	return nil
}

// CheckAllocation returns what is wrong with a metadata record of kind store.KindAllocation in a store of
// some partitions, and in which of them it belongs.
func CheckAllocation(r *store.MetaRecord, partitions int) (home int, err error) {
	if l, ok := permitrecord.ParseLevel(r); ok {
		return permitrecord.HomeOf(l.Limit, partitions), nil
	}
	a, ok := permitrecord.ParseAllocation(r)
	if !ok || a.Partition < 0 || a.Partition >= partitions {
		return 0, fmt.Errorf("%w: the record of permits %q", store.ErrDamaged, r.Key)
	}
	return permitrecord.HomeOf(a.Limit, partitions), nil
}

// Answer processes the requests of a partition, and returns its grant for each limit that they name. It may
// leave notices for others.
func (h *Home) Answer(from message.Asker, asks []message.PermitRequest) []message.PermitGrant {
	for i := range asks {
		h.noteRequest(from, &asks[i])
	}
	var out []message.PermitGrant
	for i := range asks {
		if a := h.accounts[asks[i].Limit]; a != nil {
			h.serve(a)
		}
	}
	for i := range asks {
		g := message.PermitGrant{Limit: asks[i].Limit, Term: from.Term, NextWaiter: message.NoNextWaiter}
		if a := h.accounts[asks[i].Limit]; a != nil {
			if l := a.allocations[from.Partition]; l != nil {
				g = h.grant(l)
			}
			h.tidy(a)
		}
		out = append(out, g)
	}
	h.notices = slices.DeleteFunc(h.notices, func(n Notice) bool { // the answer says the same
		return n.Partition == from.Partition &&
			slices.ContainsFunc(asks, func(a message.PermitRequest) bool { return a.Limit == n.Limit })
	})
	return out
}

// noteRequest processes one request.
func (h *Home) noteRequest(from message.Asker, ask *message.PermitRequest) {
	hold, want := max(0, ask.Hold), min(max(0, ask.Want), reserveAtOnce)
	a := h.accounts[ask.Limit]
	if a == nil {
		if hold == 0 && want == 0 {
			return
		}
		a = h.account(ask.Limit)
	}
	g := a.allocations[from.Partition]
	switch {
	case g != nil && from.Term.Epoch < g.term.Epoch:
		return // from an owner whose term is over
	case g == nil && hold == 0 && want == 0:
		return
	case g == nil || g.term != from.Term:
		// What a new owner has found in force is the truth, and it knows of no grant yet.
		g = a.to(from.Partition)
		g.term, g.stamp, g.nextWaiter = from.Term, h.stamp(), message.NoNextWaiter
		if a.fills != nil { // what its predecessor had is used up, or nobody will use it
			h.useUp(g, g.n)
			g.spent, hold = ask.Spent, 0
		}
		h.set(g, hold)
	default:
		h.noteSpent(g, ask.Spent)
		if ask.Stamp.Compare(g.stamp) < 0 {
			return // sent before the partition learned of its newest grant, which it may use
		}
		h.set(g, min(g.n, hold))
	}
	a.waiting.Remove(g)
	if g.want, g.order = want, ask.Order; want > 0 {
		a.waiting.Add(g)
	}
}

// set changes how much a partition is allocated.
func (h *Home) set(g *allocation, n int) {
	g.account.sum += n - g.n
	g.n = n
	h.noteLevel(g.account)
	if !g.noted {
		g.noted = true
		h.changed = append(h.changed, g)
	}
}

// serve allocates free permits to the partitions that wait, best first. It tells holders if a better run
// waits elsewhere than they know of.
func (h *Home) serve(a *account) {
	most, limited := h.most(a)
	for limited && len(a.waiting) > 0 && a.sum < most {
		g := a.waiting[0]
		n := min(g.want, most-a.sum)
		a.waiting.Remove(g)
		g.want, g.stamp = 0, h.stamp()
		h.set(g, g.n+n)
		h.tell(g)
	}
	for _, p := range slices.Sorted(maps.Keys(a.allocations)) {
		if g := a.allocations[p]; g.n > 0 && h.nextWaiterOf(g) < g.nextWaiter {
			h.tell(g)
		}
	}
	if a.fills != nil {
		h.schedule(a)
	}
}

// most returns the limit of an account's key, or how many tokens are in the bucket of a rate.
func (h *Home) most(a *account) (most int, limited bool) {
	if a.fills != nil {
		return h.inBucket(a)
	}
	return h.limitOf(a.key)
}

func (h *Home) tell(g *allocation) {
	h.notices = append(h.notices, Notice{g.p, h.grant(g)})
}

// grant returns the grant that a partition is to know, and remembers the next waiter it names.
func (h *Home) grant(g *allocation) message.PermitGrant {
	g.nextWaiter = h.nextWaiterOf(g)
	return message.PermitGrant{Limit: g.account.key, Term: g.term, Stamp: g.stamp, N: g.n, Want: g.want,
		NextWaiter: g.nextWaiter, Spent: g.spent}
}

// nextWaiterOf returns Grant.NextWaiter for a partition.
func (h *Home) nextWaiterOf(g *allocation) int64 {
	a := g.account
	if most, limited := h.most(a); limited && a.sum > most {
		return message.Recall
	}
	first := message.NoNextWaiter
	for i := range min(1+heaps.Arity, len(a.waiting)) { // the second best is right below the best
		if w := a.waiting[i]; w != g {
			first = min(first, w.order)
		}
	}
	return first
}

// Changed serves the limits of a namespace again after its settings have changed; "" means all namespaces.
func (h *Home) Changed(namespace string) {
	for _, a := range inOrder(h.accounts) {
		if namespace == "" || a.key.Namespace == namespace {
			h.serve(a)
		}
	}
}

const (
	// lookAtOnce bounds the limits that one Poll visits.
	lookAtOnce = 1024
	// auditAtOnce bounds those among them that no partition waits for.
	auditAtOnce = 16
)

// Poll repeats the grants of holders of contended limits, and of a few others: a message may have been lost,
// and the owner of a partition may not know of its allocation. It is called about once a second.
func (h *Home) Poll() {
	audits := 0
	for range min(lookAtOnce, len(h.ring)) {
		key := h.ring[0]
		h.ring = h.ring[1:]
		a := h.accounts[key]
		if a == nil {
			delete(h.ringed, key)
			continue
		}
		h.ring = append(h.ring, key)
		most, limited := h.most(a)
		if len(a.waiting) == 0 && !(limited && a.sum > most) {
			if audits++; audits > auditAtOnce {
				continue
			}
		}
		h.serve(a)
		for _, p := range slices.Sorted(maps.Keys(a.allocations)) {
			if g := a.allocations[p]; g.n > 0 {
				h.tell(g)
			}
		}
		h.tidy(a)
	}
}

// Write returns the records that must be durable before anything is told.
func (h *Home) Write() (small []store.MetaRecord) {
	for _, g := range h.changed {
		g.noted = false
		if g.n > 0 || g.written {
			a := permitrecord.Allocation{Limit: g.account.key, Partition: g.p, N: g.n, Term: g.term, Spent: g.spent}
			small = append(small, a.Record())
		}
		g.written = g.n > 0
	}
	h.changed = h.changed[:0]
	return h.appendLevels(small)
}

// Notices returns the grants to send, ordered by partition, and forgets them.
func (h *Home) Notices() (news []Notice) {
	news, h.notices = h.notices, nil
	slices.SortStableFunc(news, func(a, b Notice) int { return a.Partition - b.Partition })
	return news
}

// stamp returns a stamp greater than all before.
func (h *Home) stamp() message.Stamp {
	h.stamps++
	return message.Stamp{Epoch: h.epoch, N: h.stamps}
}

func (h *Home) account(key delivery.Limit) *account {
	a := h.accounts[key]
	if a == nil {
		a = &account{key: key, allocations: map[int]*allocation{}, since: h.now}
		if key.IsRate() {
			a.fills = &filling{account: a, at: -1}
		}
		h.accounts[key] = a
		if !h.ringed[key] {
			h.ringed[key] = true
			h.ring = append(h.ring, key)
		}
	}
	return a
}

// to finds or makes the allocation of a partition.
func (a *account) to(p int) *allocation {
	g := a.allocations[p]
	if g == nil {
		g = &allocation{account: a, p: p, nextWaiter: message.NoNextWaiter, at: -1}
		a.allocations[p] = g
	}
	return g
}

// tidy forgets empty allocations, and the account if none is left.
func (h *Home) tidy(a *account) {
	maps.DeleteFunc(a.allocations, func(_ int, g *allocation) bool { return g.n == 0 && g.want == 0 })
	if len(a.allocations) == 0 && (a.fills == nil || h.forgets(a)) {
		delete(h.accounts, a.key)
	}
}

// Before orders allocations by order, then partition.
func (g *allocation) Before(o *allocation) bool {
	if g.order != o.order {
		return g.order < o.order
	}
	return g.p < o.p
}

// At is where the allocation waits.
func (g *allocation) At() *int32 { return &g.at }
