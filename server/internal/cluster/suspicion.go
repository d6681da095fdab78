package cluster

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Times of suspicions.
const (
	// How long a partition is left to a member that lives and does not take it, as a fraction of the TTL.
	suspectNum, suspectDen = 3, 2
	firstSuspicion         = 10 * time.Second // after which the member is first given a partition again
	maxSuspicion           = 5 * time.Minute  // the longest such pause
)

// suspicions are about members that do not take partitions of their shares although they live and give no
// reason: nodes of a version that gives none, or of one that is wrong about itself. Of all nodes that could
// suspect a member only one does, the first fit one by name, so that there is one memory and one backoff. The
// others read its findings in the store and act on them.
//
// When the backoff is over the member is given one partition. If it takes and keeps that, it gets the others
// too.
type suspicions struct {
	of       map[string]*suspicion            // by member
	by       map[int]*vacancy                 // by partition
	findings atomic.Pointer[map[string][]int] // what the node says about other members
}

// suspicion is about one member.
type suspicion struct {
	nonce   uint64
	parts   map[int]bool
	tries   int
	until   time.Duration // when it is given a partition again
	trial   int           // the partition that it was given; -1 = none
	since   time.Duration // when it was given that
	healthy time.Duration // since when it takes all its partitions; 0 = it does not
}

// vacancy is how a partition was last found.
type vacancy struct {
	member string
	term   store.Term
	since  time.Duration // since when it has been vacant; 0 = it is not
}

// published returns what the node says about other members.
func (d *suspicions) published() map[string][]int {
	if all := d.findings.Load(); all != nil {
		return *all
	}
	return nil
}

// suspected returns the partitions that members are found not to take, by all findings.
func (v *view) suspected() map[string][]int {
	all := map[string][]int{}
	for i := range v.members {
		for id, parts := range conditionOf(&v.members[i]).Suspected {
			all[id] = append(all[id], parts...)
		}
	}
	return all
}

// suspecter returns the member that would suspect another: the first fit one by name.
func (v *view) suspecter(of string) string {
	for i := range v.members {
		if m := &v.members[i]; m.ID != of && conditionOf(m).Phase == phaseFit {
			return m.ID
		}
	}
	return ""
}

// update takes a new view. It reports whether the node's findings have changed. The caller holds the turn.
func (d *suspicions) update(v *view, me string, now, answering, ttl time.Duration) (changed bool) {
	if d.by == nil {
		d.by, d.of = map[int]*vacancy{}, map[string]*suspicion{}
	}
	for p, id := range allot(v.members, v.owners) {
		if d.vacant(v, p, id, me, now, answering) >= ttl*suspectNum/suspectDen && v.suspecter(id) == me {
			changed = d.begin(v, id, p, now) || changed
		}
	}
	maps.DeleteFunc(d.of, func(id string, x *suspicion) bool {
		m, lives := v.member(id)
		gone := !lives || m.Nonce != x.nonce || v.suspecter(id) != me
		changed = changed || gone && len(x.parts) > 0
		return gone || x.healthy > 0 && now-x.healthy >= maxSuspicion
	})
	for id, x := range d.of {
		changed = x.proceed(v, id, now, ttl) || changed
	}
	if changed {
		d.publish()
	}
	return changed
}

// vacant returns how long a partition that another member should own has had no owner, or one that claims it
// again and again.
func (d *suspicions) vacant(v *view, p int, id, me string, now, answering time.Duration) time.Duration {
	o, last := &v.owners[p], d.by[p]
	if id == "" || id == me || answering == notAnswering {
		delete(d.by, p)
		return 0
	}
	found := &vacancy{member: id, term: o.Term}
	d.by[p] = found
	again := last != nil && last.member == id && o.Node == id && last.term != o.Term
	if v.holds(o) && !again {
		return 0
	}
	found.since = now
	if last != nil && last.member == id && last.since > 0 {
		found.since = max(last.since, answering)
	}
	return now - found.since
}

// holds reports whether a living member has a valid lease on a partition.
func (v *view) holds(o *store.Owner) bool {
	_, lives := v.member(o.Node)
	return lives && o.Until.After(v.at)
}

// begin records the suspicion that a member does not take a partition.
func (d *suspicions) begin(v *view, id string, p int, now time.Duration) (changed bool) {
	x := d.of[id]
	if x == nil {
		m, _ := v.member(id)
		x = &suspicion{nonce: m.Nonce, parts: map[int]bool{}, trial: -1}
		d.of[id] = x
	}
	if x.parts[p] {
		return false // no other member would take it either
	}
	if len(x.parts) == 0 {
		x.until = now + backoff(firstSuspicion, maxSuspicion, x.tries)
		x.tries++
	}
	x.parts[p], x.healthy, d.by[p].since = true, 0, 0
	return true
}

// proceed gives the member a partition when the backoff is over, and later records whether it took it.
func (x *suspicion) proceed(v *view, id string, now, ttl time.Duration) (changed bool) {
	switch {
	case x.trial < 0 && len(x.parts) == 0:
		return false
	case x.trial < 0 && now >= x.until:
		x.trial, x.since = slices.Min(slices.Collect(maps.Keys(x.parts))), now
		delete(x.parts, x.trial)
		return true
	case x.trial < 0 || now-x.since < ttl/unfitParts:
		return false
	}
	p := x.trial
	x.trial = -1
	if o := &v.owners[p]; o.Node == id && v.holds(o) {
		clear(x.parts)
		x.healthy = now
		return true
	}
	x.parts[p], x.until = true, now+backoff(firstSuspicion, maxSuspicion, x.tries)
	x.tries++
	return true
}

// publish puts the findings into the node's next heartbeat.
func (d *suspicions) publish() {
	all := map[string][]int{}
	for id, x := range d.of {
		if len(x.parts) > 0 {
			all[id] = slices.Sorted(maps.Keys(x.parts))
		}
	}
	d.findings.Store(&all)
}
