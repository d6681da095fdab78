package cluster

import (
	"slices"

	"github.com/carillonhq/carillon/server/store"
)

// allot returns which member should own each partition; empty if none may. Every node computes it from what
// the store says, so all nodes that have read the same members agree.
//
// Members that have proven that they can own partitions share them equally. A partition that its member
// refuses, or is suspected of not taking, goes to the next best member. The shares of the others stay as they
// are, also as computed by nodes of a version that does not know about refusals. If no member is fit, members
// that are leaving keep what they own: to hand it to another member that is leaving would only move it. If
// there are none of those either, the unfit members try: what fails on all of them is not their own fault.
func allot(members []store.Member, owners []store.Owner) []string {
	able := slices.DeleteFunc(slices.Clone(members), func(m store.Member) bool { return m.Capacity == 0 })
	if len(able) > 0 {
		return except(shares(able, len(owners)), able)
	}
	var staying, unfit []store.Member
	for _, m := range members {
		switch conditionOf(&m).Phase {
		case phaseLeaving:
			staying = append(staying, m)
		case phaseUnfit, phaseProving:
			m.Capacity = 1
			unfit = append(unfit, m)
		}
	}
	if len(staying) > 0 {
		return stay(staying, owners)
	}
	return shares(unfit, len(owners))
}

// stay leaves to each of the members what it owns; the rest goes to the highest scores.
func stay(members []store.Member, owners []store.Owner) []string {
	out := make([]string, len(owners))
	for p, o := range owners {
		if slices.ContainsFunc(members, func(m store.Member) bool { return m.ID == o.Node }) {
			out[p] = o.Node
			continue
		}
		out[p] = best(members, p)
	}
	return out
}

// best returns the member with the highest score for a partition; empty if there is none.
func best(members []store.Member, p int) (id string) {
	var most uint64
	for _, m := range members {
		if s := score(m.ID, p); id == "" || s > most {
			id, most = m.ID, s
		}
	}
	return id
}

// taking is a member and a partition.
type taking struct {
	member    string
	partition int
}

// except gives partitions that their members refuse, or are suspected of not taking, to others. A partition
// that nobody would take stays where it is: somebody has to try.
func except(owners []string, able []store.Member) []string {
	not := map[taking]bool{}
	var heirs []store.Member // members of a version that knows of refusals
	for i := range able {
		c := conditionOf(&able[i])
		if c.Phase == "" {
			continue
		}
		heirs = append(heirs, able[i])
		for _, p := range c.Refuses {
			not[taking{able[i].ID, p}] = true
		}
		for id, parts := range c.Suspected {
			for _, p := range parts {
				not[taking{id, p}] = true
			}
		}
	}
	for p, id := range owners {
		if !not[taking{id, p}] {
			continue
		}
		willing := slices.DeleteFunc(slices.Clone(heirs), func(m store.Member) bool { return not[taking{m.ID, p}] })
		if heir := best(willing, p); heir != "" {
			owners[p] = heir
		}
	}
	return owners
}
