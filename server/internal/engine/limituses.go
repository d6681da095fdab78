package engine

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/internal/permitrecord"
)

// LimitUse is how many permits of a concurrency key are handed out, and how many there are.
type LimitUse struct {
	delivery.Limit
	Held, Of int
}

// LimitUses returns the limits of concurrency keys, ordered, as far as this node counts their permits: all,
// or in a cluster those whose home is a partition that it owns. There Held is as of the last second, and has
// permits that partitions were given and do not use yet.
func (e *Engine) LimitUses() []LimitUse {
	held := map[delivery.Limit]int{}
	note := func(uses []permit.Use) {
		for _, u := range uses {
			held[u.Limit] += u.Held
		}
	}
	if e.peers == nil {
		e.limiter.locked(func(c *permit.Counter) { note(c.Uses()) })
	}
	for _, p := range e.parts {
		if uses := p.figures.uses.Load(); uses != nil {
			note(*uses)
		}
	}
	var all []LimitUse
	for _, u := range e.settings.limits() {
		if e.peers == nil || e.parts[permitrecord.HomeOf(u.Limit, len(e.parts))].own.holds() {
			u.Held = held[u.Limit]
			all = append(all, u)
		}
	}
	return all
}

// limits returns the limits of all namespaces, ordered.
func (s *settings) limits() (all []LimitUse) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for namespace, n := range s.byName {
		for key, most := range n.ConcurrencyLimits {
			all = append(all, LimitUse{Limit: delivery.Limit{Namespace: namespace, Key: key}, Of: most})
		}
	}
	slices.SortFunc(all, func(a, b LimitUse) int { return a.Compare(b.Limit) })
	return all
}

// showUses publishes the permits that the partition hands out as the home of limits.
func showUses(p *partitionRunner) {
	if p.permits == nil || p.e.peers == nil {
		return
	}
	uses := p.permits.home.Uses()
	p.figures.uses.Store(&uses)
}
