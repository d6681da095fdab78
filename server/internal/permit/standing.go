package permit

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// Use is how many permits of a limit are handed out.
type Use struct {
	delivery.Limit
	Held int
}

// mostHolders bounds the partitions that a standing names.
const mostHolders = 16

// Standing says how a limit stands for a run that waits in a partition, with an order.
func (m *Counter) Standing(q message.LimitStands) (s message.Standing) {
	l := m.limits[q.Limit]
	if l == nil {
		return s
	}
	s.Held = l.inForce
	for p, of := range m.held {
		if of[q.Limit] > 0 {
			s.Holders = append(s.Holders, p)
		}
	}
	for at, w := range l.lines {
		if at.p != q.From && w.at >= 0 && w.order < q.Order {
			s.Before++
		}
	}
	return bounded(s)
}

// Standing says how a limit stands for a run that waits in a partition, with an order.
func (h *Home) Standing(q message.LimitStands) (s message.Standing) {
	a := h.accounts[q.Limit]
	if a == nil {
		return s
	}
	s.Held = a.sum
	for p, g := range a.allocations {
		if g.n > 0 {
			s.Holders = append(s.Holders, p)
		}
		if p != q.From && g.at >= 0 && g.order < q.Order {
			s.Before++
		}
	}
	if a.fills != nil {
		h.addNext(&s, a)
	}
	return bounded(s)
}

func bounded(s message.Standing) message.Standing {
	slices.Sort(s.Holders)
	s.Holders = s.Holders[:min(len(s.Holders), mostHolders)]
	return s
}

// Uses returns the permits that attempts in force hold, ordered by limit. Left out are limits that sidecars
// name, rates and quotas.
func (m *Counter) Uses() []Use {
	return uses(m.limits, func(l *limit) int { return l.inForce })
}

// Uses returns the permits that are allocated to partitions, ordered by limit. Left out are limits that
// sidecars name, rates and quotas.
func (h *Home) Uses() []Use {
	return uses(h.accounts, func(a *account) int { return a.sum })
}

// RateUse is how many permits of a rate are left to be handed out.
type RateUse struct {
	delivery.Limit
	Left int
}

// Rates returns the rates of which permits were handed out, ordered. Of all others everything is left.
func (h *Home) Rates() (out []RateUse) {
	for l, a := range h.accounts {
		if a.fills == nil {
			continue
		}
		if n, limited := h.inBucket(a); limited {
			out = append(out, RateUse{l, max(0, n-a.sum)})
		}
	}
	slices.SortFunc(out, func(a, b RateUse) int { return a.Limit.Compare(b.Limit) })
	return out
}

func uses[V any](of map[delivery.Limit]V, held func(V) int) []Use {
	out := make([]Use, 0, len(of))
	for l, v := range of {
		if !l.Named() && !l.IsRate() && !l.IsQuota() {
			out = append(out, Use{l, held(v)})
		}
	}
	slices.SortFunc(out, func(a, b Use) int { return a.Limit.Compare(b.Limit) })
	return out
}
