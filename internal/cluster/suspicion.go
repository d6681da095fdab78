package cluster

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/store"
)

// Times of doubts.
const (
	doubtNum, doubtDen = 3, 2             // of the TTL: for so long a partition is left to a member that lives and does not take it
	firstSuspicion     = 10 * time.Second // after which it is left one again at first
	maxSuspicion       = 5 * time.Minute  // at last
)

// suspicions are what this node finds members not to take of their shares, although they live and do not say why: nodes of a version that
// says nothing, or of one that is wrong about itself. Of all that could doubt a member one does, the first fit one by name, so that
// there is one memory and one backoff; the others read it in the store and act on it.
//
// When the backoff is over the member is left one partition. If it takes it, and keeps it, it gets the others too.
type suspicions struct {
	of  map[string]*suspicion // by member
	by  map[int]*vacancy      // by partition
	say atomic.Pointer[map[string][]int]
}

// suspicion is of one member.
type suspicion struct {
	nonce uint64
	parts map[int]bool
	tries int
	until time.Duration // when it is left a partition again
	trial int           // the one that it was left; -1 = none
	since time.Duration // when
	calm  time.Duration // since when it takes all; 0 = it does not
}

// vacancy is how a partition was found last.
type vacancy struct {
	member string
	term   store.Term
	since  time.Duration // since when it has been vacant; 0 = it is not
}

// published is what the node says of other members.
func (d *suspicions) published() map[string][]int {
	if all := d.say.Load(); all != nil {
		return *all
	}
	return nil
}

// suspected is what members are found not to take, by all that say so.
func (v *view) suspected() map[string][]int {
	all := map[string][]int{}
	for i := range v.members {
		for id, parts := range conditionOf(&v.members[i]).Doubts {
			all[id] = append(all[id], parts...)
		}
	}
	return all
}

// suspecter is who doubts a member, if need be: the first fit one by name.
func (v *view) suspecter(of string) string {
	for i := range v.members {
		if m := &v.members[i]; m.ID != of && conditionOf(m).Phase == phaseFit {
			return m.ID
		}
	}
	return ""
}

// look takes a new view. It reports whether what the node is to say has changed. The caller has the turn.
func (d *suspicions) look(v *view, me string, now, answering, ttl time.Duration) (changed bool) {
	if d.by == nil {
		d.by, d.of = map[int]*vacancy{}, map[string]*suspicion{}
	}
	for p, id := range allot(v.members, v.owners) {
		if d.vacant(v, p, id, me, now, answering) >= ttl*doubtNum/doubtDen && v.suspecter(id) == me {
			changed = d.begin(v, id, p, now) || changed
		}
	}
	maps.DeleteFunc(d.of, func(id string, x *suspicion) bool {
		m, lives := v.member(id)
		gone := !lives || m.Nonce != x.nonce || v.suspecter(id) != me
		changed = changed || gone && len(x.parts) > 0
		return gone || x.calm > 0 && now-x.calm >= maxSuspicion
	})
	for id, x := range d.of {
		changed = x.proceed(v, id, now, ttl) || changed
	}
	if changed {
		d.publish()
	}
	return changed
}

// vacant is for how long a partition that another member should own has had no owner, or one that claims it again and again.
func (d *suspicions) vacant(v *view, p int, id, me string, now, answering time.Duration) time.Duration {
	o, last := &v.owners[p], d.by[p]
	if id == "" || id == me || answering == never {
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

// holds reports whether a living member has the lease of a partition.
func (v *view) holds(o *store.Owner) bool {
	_, lives := v.member(o.Node)
	return lives && o.Until.After(v.at)
}

// begin doubts that a member takes a partition.
func (d *suspicions) begin(v *view, id string, p int, now time.Duration) (changed bool) {
	x := d.of[id]
	if x == nil {
		m, _ := v.member(id)
		x = &suspicion{nonce: m.Nonce, parts: map[int]bool{}, trial: -1}
		d.of[id] = x
	}
	if x.parts[p] {
		return false // nobody else would take it either
	}
	if len(x.parts) == 0 {
		x.until = now + backoff(firstSuspicion, maxSuspicion, x.tries)
		x.tries++
	}
	x.parts[p], x.calm, d.by[p].since = true, 0, 0
	return true
}

// proceed leaves the member a partition when the backoff is over, and takes note of what it does with it.
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
		x.calm = now
		return true
	}
	x.parts[p], x.until = true, now+backoff(firstSuspicion, maxSuspicion, x.tries)
	x.tries++
	return true
}

// publish has the node say what it finds with its next heartbeat.
func (d *suspicions) publish() {
	all := map[string][]int{}
	for id, x := range d.of {
		if len(x.parts) > 0 {
			all[id] = slices.Sorted(maps.Keys(x.parts))
		}
	}
	d.say.Store(&all)
}
