package cluster

import (
	"slices"

	"github.com/carillonhq/carillon/store"
)

// allot is which member should own each partition; empty if none may. Every node computes it from what the store says, so all agree
// that have read the same.
//
// Who has proven that it can own partitions shares them with its like. What such a member says that it cannot serve, or is found
// not to take, goes to the next best; the shares of the others stay as they are, also in the eyes of nodes of a version that knows
// nothing of this. If nobody is fit those stay in office who were told to end: each keeps what it owns, since to hand it to another
// one that ends only moves it. And if there are none of those either, the unfit ones try: what fails on all of them is not theirs.
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

// best is the member with the highest score for a partition; empty if there is none.
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

// except gives to others what members refuse, or are doubted to take. What nobody would take stays where it is: somebody has to try.
func except(owners []string, able []store.Member) []string {
	not := map[taking]bool{}
	var heirs []store.Member // those who know of this
	for i := range able {
		c := conditionOf(&able[i])
		if c.Phase == "" {
			continue
		}
		heirs = append(heirs, able[i])
		for _, p := range c.Refuses {
			not[taking{able[i].ID, p}] = true
		}
		for id, parts := range c.Doubts {
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
