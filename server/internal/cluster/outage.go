package cluster

import (
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// outages detects that the store as a whole has ended terms: partitions of most members are claimed again at
// about the same time. A node with few partitions cannot tell this from what happens to its own. update is
// called with the turn.
type outages struct {
	terms   []store.Term    // by partition, as last seen
	changed []time.Duration // when each was first seen; 0 if it was there from the start
	last    atomic.Int64    // when the newest term of the last outage was seen; 0 if there was none
}

// claims is how many partitions a member has, and how many of them it has claimed recently.
type claims struct{ all, late int }

// update takes a new view. Terms that were claimed within some time of each other belong to one outage.
func (o *outages) update(v *view, now, within time.Duration) {
	first := o.terms == nil
	if first {
		o.terms, o.changed = make([]store.Term, len(v.owners)), make([]time.Duration, len(v.owners))
	}
	members, newest := map[string]claims{}, time.Duration(0)
	for p := range v.owners {
		owner := &v.owners[p]
		if owner.Term != o.terms[p] {
			o.terms[p] = owner.Term
			if !first {
				o.changed[p] = now
			}
		}
		newest = max(newest, o.changed[p])
		m := members[owner.Node]
		m.all++
		if o.changed[p] > 0 && now-o.changed[p] <= within {
			m.late++
		}
		members[owner.Node] = m
	}
	delete(members, "") // partitions without an owner
	afflicted := 0
	for _, m := range members {
		if 2*m.late > m.all {
			afflicted++
		}
	}
	if afflicted >= 2 && 2*afflicted > len(members) {
		o.last.Store(int64(newest))
	}
}
